"""Where a demonstration takes place: its own folder, database, broker, tables and topic, all removed at the end."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from fencepost import app, plugins
from fencepost.clock import Clock
from fencepost.config import Config, load
from fencepost.demo.configuration import Setup
from fencepost.demo.databases import database
from fencepost.demo.ledgers import ledger
from fencepost.demo.nats_server import NatsServer, nats_server
from fencepost.demo.orders import Orders
from fencepost.demo.readers import Stage
from fencepost.demo.records import DemoOptions
from fencepost.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Place:
    """What there is. ``env`` is what the relays need to read the configuration: no file has what may be secret."""

    folder: Path
    config_file: Path
    config: Config
    env: dict[str, str]
    orders: Orders
    stage: Stage
    server: NatsServer | None
    """The broker, where it is the demonstration's own."""


@asynccontextmanager
async def place(options: DemoOptions, clock: Clock, purpose: str = "demo") -> AsyncIterator[Place]:
    """Make everything; remove it at the end unless it is to be kept. Raises FixError or RetryError.

    ``purpose`` is a word in the names of tables, topic and folder.
    """
    run_id = clock.new_id()[-8:]
    async with AsyncExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix=f"fencepost-{purpose}-"))
        if not options.keep:
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
        given = options.config
        url = options.database or (given.database.url if given else f"sqlite:///{folder / 'orders.db'}")
        broker = options.broker or (given.broker.url if given else None)
        server = await stack.enter_async_context(nats_server(folder, clock)) if broker is None else None
        broker = server.url if server else broker or ""
        setup = Setup(run_id, url, broker, given, _used(options), purpose, options.broker_settings)
        stage = _stage(setup, clock) if options.stage is None else options.stage(setup.broker(), setup.topic)
        text, env = setup.written(stage.settings)
        file = folder / "fencepost.toml"
        file.write_text(text, encoding="utf-8")
        config = load(file, env)
        store = database(url)
        stack.push_async_callback(store.close)
        orders = Orders(store, ledger(store, config.database, setup.topic), clock)
        if not options.keep:
            stack.push_async_callback(orders.drop)
        await _reach(config)
        await app.schema(config).apply()
        await orders.create()
        if not options.keep:
            stack.push_async_callback(stage.drop)
        await stage.create()
        yield Place(folder, file, config, env, orders, stage, server)


async def _reach(config: Config) -> None:
    """Ask the broker as a relay does, which says best what is wrong with it."""
    broker = app.broker(config)
    try:
        await broker.open()
    finally:
        await broker.close()


def _used(options: DemoOptions) -> set[str]:
    """The sections of a configuration that count: a URL that is given otherwise stands for its whole section."""
    instead = {"database": options.database, "broker": options.broker}
    return {"relay", "lease", *(section for section, url in instead.items() if url is None)}


def _stage(setup: Setup, clock: Clock) -> Stage:
    options = setup.broker()
    name = plugins.name_of("broker", options.url)
    plugins.load("broker", name)  # says which extra is missing
    if name == "nats":
        from fencepost.demo.nats_stage import NatsStage

        return NatsStage(options, setup.topic, clock)
    if name == "kafka":
        from fencepost.demo.kafka_stage import KafkaStage

        return KafkaStage(options, setup.topic)
    if name == "redis":
        from fencepost.demo.redis_stage import RedisStage

        return RedisStage(options, setup.topic)
    if name == "rabbitmq":
        from fencepost.demo.rabbitmq_stage import RabbitStage

        return RabbitStage(options, setup.topic)
    if name == "mqtt":
        from fencepost.demo.mqtt_stage import MqttStage

        return MqttStage(options, setup.topic, clock)
    if name == "http":
        from fencepost.demo.http_stage import HttpStage

        return HttpStage(options)
    if name == "file":
        from fencepost.demo.file_stage import FileStage

        return FileStage(options, setup.topic, clock)
    if name in {"sqs", "sns"}:
        from fencepost.demo.aws_stage import AwsStage

        return AwsStage(options, name, setup.topic, clock)
    if name == "sql":
        from fencepost.demo.sql_stage import SqlStage

        return SqlStage(options, setup.topic, clock)
    known = "inbox+..., nats, kafka, redis, rabbitmq, mqtt, sqs, sns, http, file"
    raise ConfigurationError("the demonstration does not know this broker", remedy=f"it takes {known}")
