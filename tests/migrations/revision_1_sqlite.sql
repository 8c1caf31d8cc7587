CREATE TABLE IF NOT EXISTS fencepost_entity (
    topic VARCHAR(249) NOT NULL,
    "key" VARCHAR(255) NOT NULL,
    version BIGINT NOT NULL,
    PRIMARY KEY (topic, "key")
)

CREATE TABLE IF NOT EXISTS fencepost_lane (
    relay VARCHAR(100) NOT NULL,
    lane INTEGER NOT NULL,
    first_slot SMALLINT NOT NULL,
    last_slot SMALLINT NOT NULL,
    asleep BOOLEAN NOT NULL,
    PRIMARY KEY (relay, lane)
)

CREATE TABLE IF NOT EXISTS fencepost_lease (
    name VARCHAR(255) NOT NULL,
    owner VARCHAR(255),
    token BIGINT NOT NULL,
    acquired_at VARCHAR(26),
    expires_at VARCHAR(26),
    session BOOLEAN NOT NULL,
    PRIMARY KEY (name)
)

CREATE TABLE IF NOT EXISTS fencepost_outbox (
    seq INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    id VARCHAR(36) NOT NULL,
    topic VARCHAR(249) NOT NULL,
    "key" VARCHAR(255),
    version BIGINT,
    type VARCHAR(255) NOT NULL,
    slot SMALLINT NOT NULL,
    payload BLOB,
    content_type VARCHAR(255) NOT NULL,
    headers TEXT,
    occurred_at VARCHAR(26) NOT NULL,
    available_at VARCHAR(26),
    attempts INTEGER DEFAULT '0' NOT NULL,
    state SMALLINT DEFAULT '0' NOT NULL,
    token BIGINT,
    last_error TEXT
)

CREATE INDEX IF NOT EXISTS fencepost_outbox_due ON fencepost_outbox (available_at) WHERE state = 2

CREATE INDEX IF NOT EXISTS fencepost_outbox_ready ON fencepost_outbox (seq) WHERE state IN (0, 1)

CREATE TABLE IF NOT EXISTS fencepost_parked (
    id VARCHAR(36) NOT NULL,
    topic VARCHAR(249) NOT NULL,
    "key" VARCHAR(255),
    version BIGINT,
    type VARCHAR(255) NOT NULL,
    slot SMALLINT NOT NULL,
    payload BLOB,
    content_type VARCHAR(255) NOT NULL,
    headers TEXT,
    occurred_at VARCHAR(26) NOT NULL,
    available_at VARCHAR(26),
    attempts INTEGER DEFAULT '0' NOT NULL,
    seq BIGINT NOT NULL,
    parked_at VARCHAR(26) NOT NULL,
    reason TEXT NOT NULL,
    CONSTRAINT fencepost_parked_pkey PRIMARY KEY (id)
)
