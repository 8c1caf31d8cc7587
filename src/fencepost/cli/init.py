"""`fencepost init`: a commented configuration file that works as it is."""

from __future__ import annotations

import json
import re
from pathlib import Path

from fencepost.cli import output
from fencepost.config.entries import Entry
from fencepost.config.records import NAME, rules
from fencepost.config.secrets import withheld
from fencepost.config.values import checked
from fencepost.errors import ConfigurationError

DATABASE = "sqlite:///orders.db"
BROKER = "nats://127.0.0.1:4222"

_TEMPLATE = """\
# The configuration of Fencepost. A line that starts with # shows a default.
#
# - ${{VARIABLE}} inside a value stands for an environment variable: use it for passwords.
# - An environment variable FENCEPOST_SECTION__KEY replaces a value, for example FENCEPOST_DATABASE__URL.
# - `fencepost check` says whether everything can be reached and which delivery is possible.

[relay]
# The name of this outbox. Relays with the same name work for the same outbox: one leads, the others stand by.
# Two outboxes that use the same broker need different names.
name = {name}
# source = "/{bare_name}"      # who publishes: the CloudEvents source of each message
# delivery = "auto"           # the strongest that the broker gives; or refuse to start below
#                             # "exactly-once", "deduplicated", "at-least-once"
# on_poison = "park"          # a message that cannot be published: "park" it and go on with its key, or
#                             # "block": its key waits until somebody acts
# max_attempts = 10           # tries before a message is parked
# batch = 2000                # messages handed to the broker at once, at most
# batch_bytes = 4000000       # the same in payload bytes, about
# retry_base_s = 0.1          # first pause after a failure; it doubles ...
# retry_cap_s = 30.0          # ... up to this
# poll_s = 5.0                # how often an idle relay looks although nobody woke it
# route = "shop.routing:route"   # a function of yours that says where a message goes: docs/routing.md

[database]
# Where your service writes its messages: the database that it already has.
#   sqlite:///relative.db   sqlite:////absolute.db
#   postgresql://user:${{DB_PASSWORD}}@host:5432/name
#   mariadb://user:${{DB_PASSWORD}}@host:3306/name   mysql://...
#   redis://user:${{DB_PASSWORD}}@host:6379/0
#   mongodb://user:${{DB_PASSWORD}}@host/name?replicaSet=rs0&authSource=admin
#   mongodb-embedded://user:${{DB_PASSWORD}}@host/name?collections=orders   messages inside documents
#   dynamodb://eu-west-1/     credentials from the environment, ~/.aws or the machine's role
#   oracle://...   mssql://...   cockroachdb://...   compiled, not run: see docs/other-sql.md
url = {database}
# schema = "public"           # where the tables are; the connection's default where it is absent
# prefix = "fencepost_"       # what the names of tables, collections or keys begin with
# timeout_s = 30.0            # for one answer of the database
# settle = "delete"           # or "mark": published rows stay, with the time (PostgreSQL, SQLite, MariaDB, MySQL)
# retention_s = 604800.0      # with "mark": they are purged after so long; left out, never

[broker]
# Where the messages go.
#   nats://host:4222          JetStream; exactly-once from server 2.12.1 on
#   kafka://host:9092         exactly-once; readers use isolation.level=read_committed
#   redis://host:6379/0       streams; exactly-once, as far as the server keeps what it was given
#   amqp://user:${{BROKER_PASSWORD}}@host:5672/vhost   RabbitMQ; at least once   amqps://... with TLS
#   mqtt://host:1883          at least once (QoS 1)   mqtts://... with TLS
#   inbox+postgresql://...    a table of the consumer's database (also inbox+mariadb, inbox+sqlite); exactly-once
#   sqs://eu-west-1/   sns://eu-west-1/   Amazon's; credentials as for dynamodb; a repeat is recognised for 5 minutes
#   https://host/{{topic}}      webhooks; at least once
#   file:///folder/{{topic}}.jsonl   stdout:   JSON lines; at least once
url = {broker}
# create = true               # topics and streams that are missing may be created
# timeout_s = 30.0            # for one answer of the broker
# format = "cloudevents-binary"   # how a message looks; "cloudevents-structured", "plain", "debezium"
# header_map = {{ce_id = "event-id", ce_time = false}}   # headers under other names, or left out
# Further keys belong to the broker's own plug-in: see docs/configuration.md.

[lease]
# Which relay leads. By default the lease is kept in the database above.
# url = "postgresql://..."
# ttl_s = 5.0                 # a leader that is silent for so long is replaced
# timeout_s = 5.0

[log]
# format = "auto"             # "text", "json"; auto: text on a terminal, JSON lines elsewhere
# level = "info"              # "debug", "info", "warning", "error"
"""


def init(file: Path, *, name: str | None, database: str, broker: str, force: bool) -> None:
    """Write ``file``. Raises ConfigurationError where it exists (without ``force``) or an option cannot be right."""
    chosen = name or _name_of(Path.cwd())
    for section, key, value in (("relay", "name", chosen), ("database", "url", database), ("broker", "url", broker)):
        option = "--name" if key == "name" else f"--{section}"
        checked(Entry(section, key, value, option), rules(section)[key], value)
    database, of_database = withheld(database, "DB", show_user=True)
    broker, of_broker = withheld(broker, "BROKER", show_user=False)
    text = _TEMPLATE.format(name=_toml(chosen), bare_name=chosen, database=_toml(database), broker=_toml(broker))
    try:
        with file.open("w" if force else "x", encoding="utf-8") as opened:
            opened.write(text)
    except FileExistsError as error:
        raise ConfigurationError(f"{file} exists already", remedy="pass --force to replace it") from error
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be written: {error.strerror}") from error
    output.line(f"wrote {file}")
    for variable in (*of_database, *of_broker):
        output.line(f"it has no secret in it: set the environment variable {variable} to what stood there in the URL")
    output.line("next: fencepost schema apply, fencepost check, fencepost relay")


def _name_of(folder: Path) -> str:
    """A relay's name made of the folder's."""
    name = re.sub(r"[^a-z0-9]+", "-", folder.name.lower()).strip("-")[:63].strip("-")
    return name if NAME.match(name) else "outbox"


def _toml(text: str) -> str:
    """A basic string of TOML, which is written like one of JSON."""
    return json.dumps(text, ensure_ascii=False)
