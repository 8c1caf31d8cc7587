"""From a configuration to the parts that it names. The only place where plug-ins, core and configuration meet."""

from __future__ import annotations

import dataclasses
import importlib
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any, TypeVar, cast

from fencepost import plugins
from fencepost.clock import SYSTEM_CLOCK, Clock
from fencepost.config import Config
from fencepost.config.problems import raise_all
from fencepost.envelope import Format
from fencepost.errors import ConfigurationError, MissingExtra, UnknownPlugin
from fencepost.events import Observer
from fencepost.existing import ExistingTable
from fencepost.message import Stored
from fencepost.ports import Broker, BrokerOptions, DatabaseOptions, Lane, LeaseOptions, LeaseStore, Schema, Source
from fencepost.relay import Outlet, Relay, RelayOptions
from fencepost.relay.routing import Addressing
from fencepost.routes import MAIN, Hook, Router, Rule

T = TypeVar("T")

_ELSEWHERE = 'keep them elsewhere: write url = "sqlite:///leases.db" in [lease], or the URL of another lease store'


@dataclass(frozen=True, slots=True)
class Parts:
    """What a relay works with, not yet connected."""

    source: Source
    outlets: Sequence[Outlet]
    leases: LeaseStore

    @property
    def broker(self) -> Broker:
        """The main one."""
        return self.outlets[0].broker


def parts(config: Config, clock: Clock = SYSTEM_CLOCK) -> Parts:
    """All three. Every plug-in that cannot be had is reported at once (ConfigurationError, or several of them)."""
    errors: list[ConfigurationError] = []

    def attempt(build: Callable[[Config, Clock], T]) -> T | None:
        try:
            return build(config, clock)
        except ConfigurationError as error:
            errors.append(error)
            return None

    from_database, to_brokers, leases = attempt(source), attempt(outlets), attempt(lease_store)
    raise_all(_distinct(errors))
    assert from_database is not None  # noqa: S101 - raise_all has raised otherwise
    assert to_brokers is not None  # noqa: S101
    assert leases is not None  # noqa: S101
    return Parts(from_database, to_brokers, leases)


def _distinct(errors: list[ConfigurationError]) -> list[ConfigurationError]:
    """Database and lease store are often one server, whose library is missing once."""
    return list({error.remedy or error.what: error for error in reversed(errors)}.values())[::-1]


def relay(config: Config, observer: Observer, clock: Clock = SYSTEM_CLOCK) -> Relay:
    """A relay of the configuration's lane, ready to run. Raises what ``parts`` raises."""
    built = parts(config, clock)
    options = RelayOptions(
        batch=config.relay.batch,
        batch_bytes=config.relay.batch_bytes,
        ttl_s=config.lease.ttl_s,
        poll_s=config.relay.poll_s,
        max_attempts=config.relay.max_attempts,
        on_poison=config.relay.on_poison,
        delivery=config.relay.delivery,
        retry_base_s=config.relay.retry_base_s,
        retry_cap_s=config.relay.retry_cap_s,
        retention_s=config.database.retention_s,
    )
    return Relay(built.source, built.outlets, built.leases, lane(config), owner(clock), options, observer, clock)


def lane(config: Config) -> Lane:
    """The lane that a relay of this configuration works on: the only one, with every slot."""
    return Lane(config.relay.name)


def owner(clock: Clock = SYSTEM_CLOCK) -> str:
    """This process, for people: "host:pid:xxxx"; the last part tells containers of one name and one pid apart."""
    return f"{socket.gethostname()}:{os.getpid()}:{clock.new_id()[-4:]}"


def source(config: Config, clock: Clock = SYSTEM_CLOCK) -> Source:
    """The outbox. Raises UnknownPlugin, MissingExtra or ConfigurationError."""
    with _placed(config, "database"):
        plugin = _database_plugin(config)
        built: Source = _factory(plugin, "source")(database(config, clock))
    return built


def schema(config: Config) -> Schema:
    """The tables of the outbox. Raises what ``source`` raises."""
    with _placed(config, "database"):
        plugin = _database_plugin(config)
        built: Schema = _factory(plugin, "schema")(database(config))
    return built


def lease_schema(config: Config) -> Schema | None:
    """The tables of the lease store, where they are in another database than the outbox; None where it has none."""
    url = config.lease.url
    if url is None or url == config.database.url:
        return None
    name = plugins.name_of("election", url)
    with _placed(config, "lease"):
        plugin = plugins.load("database" if name in plugins.names("database") else "election", name)
        if not hasattr(plugin, "schema"):
            return None
        options = dataclasses.replace(database(config), url=url, settle="delete", table=None)
        built: Schema = plugin.schema(options)
    return built


def _database_plugin(config: Config) -> ModuleType:
    """The plug-in, which says in ``OFFERS`` what it has of that which not every database has."""
    name = plugins.name_of("database", config.database.url)
    plugin = plugins.load("database", name)
    offers = getattr(plugin, "OFFERS", ())
    if config.database.settle != "delete" and config.database.settle not in offers:
        what = f'settle = "{config.database.settle}" is not possible in {name}'
        raise ConfigurationError(what, remedy='leave settle out, or write settle = "delete"')
    if config.existing.table is not None and "existing" not in offers:
        raise ConfigurationError(
            f"an existing table cannot be the outbox in {name}", remedy="leave the section [existing] out"
        )
    return plugin


def database(config: Config, clock: Clock = SYSTEM_CLOCK) -> DatabaseOptions:
    """What a database plug-in is told."""
    section = config.database
    return DatabaseOptions(
        url=section.url,
        schema=section.schema,
        prefix=section.prefix,
        timeout_s=section.timeout_s,
        clock=clock,
        settle=section.settle,
        table=_existing(config),
    )


def _existing(config: Config) -> ExistingTable | None:
    given: dict[str, Any] = dataclasses.asdict(config.existing)
    return None if config.existing.table is None else ExistingTable(**given)


def broker(config: Config, clock: Clock = SYSTEM_CLOCK) -> Broker:
    """The broker. Raises UnknownPlugin, MissingExtra or ConfigurationError."""
    section = config.broker
    options = BrokerOptions(
        url=section.url,
        source=config.source,
        create=section.create,
        timeout_s=section.timeout_s,
        settings=section.settings,
        clock=clock,
        form=Format(section.format) if section.format else None,
        header_map=section.header_map,
        publish_timeout_s=RelayOptions(ttl_s=config.lease.ttl_s).lane_options().publish_timeout_s,
    )
    with _placed(config, "broker"):
        plugin = plugins.load("broker", plugins.name_of("broker", section.url))
        built: Broker = _factory(plugin, "broker")(options)
    return built


def by_broker(config: Config) -> dict[str, Config]:
    """The configuration as each broker sees it, the main one first: that broker is the only one, on a lane of its own.

    Two brokers may be one server, for example with two formats, so their lanes must not have one name.
    """
    whole = {MAIN: dataclasses.replace(config, brokers={}, routes={})}
    for name, section in config.brokers.items():
        relay_of_it = dataclasses.replace(config.relay, name=f"{config.relay.name}--{name}", source=config.source)
        places = {**config.places, "broker": config.places.get(f"brokers.{name}", "")}
        whole[name] = dataclasses.replace(whole[MAIN], relay=relay_of_it, broker=section, places=places)
    return whole


def outlets(config: Config, clock: Clock = SYSTEM_CLOCK) -> list[Outlet]:
    """Every broker with what is routed to it, the main one first. Raises what ``broker`` raises."""
    router = routes(config)
    if router.is_trivial:
        return [Outlet(broker(config, clock), lane(config))]
    return [
        Outlet(Addressing(broker(each, clock), router), lane(each), _taking(router, name))
        for name, each in by_broker(config).items()
    ]


def _taking(router: Router, name: str) -> Callable[[Stored], bool]:
    return lambda message: router.broker_of(message) == name


def routes(config: Config) -> Router:
    """Where messages go. Raises ConfigurationError where the function of ``[relay] route`` cannot be had."""
    rules = [Rule(route.topics, route.broker, route.topic) for route in config.routes.values()]
    hook = _hook(config.relay.route) if config.relay.route else None
    return Router(rules, hook, (MAIN, *config.brokers))


def _hook(text: str) -> Hook:
    module, _, name = text.partition(":")
    try:
        found: object = getattr(importlib.import_module(module), name, None)
    except Exception as error:  # it is the user's: whatever it raises is said in a line, and --debug shows where
        what = f"[relay] route: {module} cannot be imported: {type(error).__name__}: {error}"
        remedy = "check its spelling, and that it is installed or on PYTHONPATH"
        raise ConfigurationError(what, remedy=remedy) from error
    if not callable(found):
        raise ConfigurationError(f"[relay] route: {module} has no function {name}", remedy="check its spelling")
    return cast("Hook", found)


def lease_store(config: Config, clock: Clock = SYSTEM_CLOCK) -> LeaseStore:
    """The lease store. Its tables, where it has any, are called like the database's. Raises what ``source`` raises."""
    options = LeaseOptions(
        url=config.lease_url,
        schema=config.database.schema,
        prefix=config.database.prefix,
        timeout_s=config.lease.timeout_s,
        settings=config.lease.settings,
        clock=clock,
    )
    with _placed(config, "lease"):
        name = plugins.name_of("election", config.lease_url)
        plugin = plugins.load("election", name)
        if not hasattr(plugin, "lease_store"):
            raise ConfigurationError(f"{name} keeps no leases", remedy=_ELSEWHERE)
        built: LeaseStore = plugin.lease_store(options)
    return built


def _factory(plugin: ModuleType, name: str) -> Callable[..., Any]:
    """A function of somebody else's module, too, which may be the wrong one."""
    found: Callable[..., Any] | None = getattr(plugin, name, None)
    if found is None:
        what = f"the module {plugin.__name__} has no {name}(options)"
        raise ConfigurationError(what, remedy="name the module of the plug-in (docs/testing-a-plugin.md)")
    return found


@contextmanager
def _placed(config: Config, section: str) -> Iterator[None]:
    """A plug-in knows what is wrong with its URL and its settings; where they were written is added here."""
    try:
        yield
    except UnknownPlugin:
        raise
    except MissingExtra as error:
        raise MissingExtra(error.what, remedy=plugins.as_installed(error.remedy)) from error
    except ConfigurationError as error:
        raise ConfigurationError(f"{_place(config, section)}: {error.what}", remedy=error.remedy) from error


def _place(config: Config, section: str) -> str:
    """Where the URL stands; where there are settings too, which may be meant, the section."""
    named = "database" if section == "lease" and config.lease.url is None else section
    if named in config.places and not getattr(getattr(config, section), "settings", None):
        return f"[{named}] url ({config.places[named]})"
    return f"[{section}] in {config.file or config.origin}"
