"""Where a demonstration takes place: its own folder, database, broker, tables and topic, all removed at the end."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from fencepost import app, plugins
from fencepost.clock import Clock
from fencepost.config import Config, load
from fencepost.demo.databases import Database, database
from fencepost.demo.nats_server import nats_server
from fencepost.demo.orders import Orders
from fencepost.demo.readers import Stage
from fencepost.demo.records import DemoOptions
from fencepost.errors import ConfigurationError, FencepostError
from fencepost.sql.tables import tables

TTL_S = 2.0
_DATABASE, _BROKER = "FENCEPOST_DEMO_DATABASE", "FENCEPOST_DEMO_BROKER"


@dataclass(frozen=True, slots=True)
class Place:
    """What there is. ``env`` holds the URLs for the relays: they may have passwords, so no file has them."""

    folder: Path
    config_file: Path
    config: Config
    env: dict[str, str]
    orders: Orders
    stage: Stage


@asynccontextmanager
async def place(options: DemoOptions, clock: Clock) -> AsyncIterator[Place]:
    """Make everything; remove it at the end unless it is to be kept. Raises FixError or RetryError."""
    run_id = clock.new_id()[-8:]
    async with AsyncExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="fencepost-demo-"))
        if not options.keep:
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
        url = options.database or f"sqlite:///{folder / 'orders.db'}"
        broker = options.broker
        if broker is None:
            broker = await stack.enter_async_context(nats_server(folder, clock))
        topic = f"fencepost-demo-{run_id}"
        stage = _stage(broker, topic, clock)
        env = {_DATABASE: url, _BROKER: broker}
        file = folder / "fencepost.toml"
        file.write_text(_configuration(run_id, stage), encoding="utf-8")
        config = load(file, env)
        store = database(url)
        stack.push_async_callback(store.close)
        orders = Orders(store, config.database.prefix, topic, clock)
        if not options.keep:
            stack.push_async_callback(_drop_tables, store, orders, config)
        await app.schema(config).apply()
        await orders.create()
        if not options.keep:
            stack.push_async_callback(stage.drop)
        await stage.create()
        yield Place(folder, file, config, env, orders, stage)


def _configuration(run_id: str, stage: Stage) -> str:
    settings = "".join(f"{name} = {json.dumps(value)}\n" for name, value in stage.settings.items())
    return (
        f'[relay]\nname = "demo-{run_id}"\n\n'
        f'[database]\nurl = "${{{_DATABASE}}}"\nprefix = "fencepost_demo_{run_id}_"\n\n'
        f'[broker]\nurl = "${{{_BROKER}}}"\n{settings}\n'
        f"[lease]\nttl_s = {TTL_S}\n\n"
        f'[log]\nformat = "json"\n'
    )


async def _drop_tables(store: Database, orders: Orders, config: Config) -> None:
    """What cannot be removed stays: the demonstration has its result."""
    metadata = tables(schema=config.database.schema, prefix=config.database.prefix).metadata
    with suppress(FencepostError):
        await orders.drop()
        await store.run(metadata.drop_all)


def _stage(url: str, topic: str, clock: Clock) -> Stage:
    name = plugins.name_of("broker", url)
    plugins.load("broker", name)  # says which extra is missing
    if name == "nats":
        from fencepost.demo.nats_stage import NatsStage

        return NatsStage(url, topic, clock)
    if name == "kafka":
        from fencepost.demo.kafka_stage import KafkaStage

        return KafkaStage(url, topic)
    raise ConfigurationError("the demonstration does not know this broker", remedy="--broker takes nats and kafka URLs")
