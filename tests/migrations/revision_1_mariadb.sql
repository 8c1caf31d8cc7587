CREATE TABLE IF NOT EXISTS fencepost_entity (
    topic VARCHAR(249) CHARACTER SET utf8mb4 /*M! COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */ NOT NULL,
    `key` VARCHAR(255) CHARACTER SET utf8mb4 /*M! COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */ NOT NULL,
    version BIGINT NOT NULL,
    PRIMARY KEY (topic, `key`)
) ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin

CREATE TABLE IF NOT EXISTS fencepost_lane (
    relay VARCHAR(100) CHARACTER SET utf8mb4 /*M! COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */ NOT NULL,
    lane INTEGER NOT NULL,
    first_slot SMALLINT NOT NULL,
    last_slot SMALLINT NOT NULL,
    asleep BOOL NOT NULL,
    PRIMARY KEY (relay, lane)
) ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin

CREATE TABLE IF NOT EXISTS fencepost_lease (
    name VARCHAR(255) CHARACTER SET utf8mb4 /*M! COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */ NOT NULL,
    owner VARCHAR(255) CHARACTER SET utf8mb4 /*M! COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */,
    token BIGINT NOT NULL,
    acquired_at DATETIME(6),
    expires_at DATETIME(6),
    session BOOL NOT NULL,
    PRIMARY KEY (name)
) ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin

CREATE TABLE IF NOT EXISTS fencepost_outbox (
    seq BIGINT NOT NULL AUTO_INCREMENT,
    id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    topic VARCHAR(249) CHARACTER SET utf8mb4 /*M! COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */ NOT NULL,
    `key` VARCHAR(255) CHARACTER SET utf8mb4 /*M! COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */,
    version BIGINT,
    type VARCHAR(255) NOT NULL,
    slot SMALLINT NOT NULL,
    payload LONGBLOB,
    content_type VARCHAR(255) NOT NULL,
    headers LONGTEXT,
    occurred_at DATETIME(6) NOT NULL,
    available_at DATETIME(6),
    attempts INTEGER NOT NULL DEFAULT '0',
    state SMALLINT NOT NULL DEFAULT '0',
    token BIGINT,
    last_error TEXT,
    PRIMARY KEY (seq),
    INDEX fencepost_outbox_due (available_at)
) ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin

CREATE TABLE IF NOT EXISTS fencepost_parked (
    id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    topic VARCHAR(249) CHARACTER SET utf8mb4 /*M! COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */ NOT NULL,
    `key` VARCHAR(255) CHARACTER SET utf8mb4 /*M! COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */,
    version BIGINT,
    type VARCHAR(255) NOT NULL,
    slot SMALLINT NOT NULL,
    payload LONGBLOB,
    content_type VARCHAR(255) NOT NULL,
    headers LONGTEXT,
    occurred_at DATETIME(6) NOT NULL,
    available_at DATETIME(6),
    attempts INTEGER NOT NULL DEFAULT '0',
    seq BIGINT NOT NULL,
    parked_at DATETIME(6) NOT NULL,
    reason TEXT NOT NULL,
    PRIMARY KEY (id)
) ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin
