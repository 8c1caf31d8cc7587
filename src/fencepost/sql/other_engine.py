"""How a relay and its lease connect to Oracle, SQL Server or CockroachDB: SQLAlchemy's engines, without a pool."""

from __future__ import annotations

from typing import Any

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from fencepost.errors import ConfigurationError, MissingExtra
from fencepost.sql.address import check_login, check_ports
from fencepost.sql.link import OWN_POOL
from fencepost.sql.other import KINDS, reserve_words


def name_in(url: str) -> str:
    """SQLAlchemy's word for the database of a URL. Raises ConfigurationError where it is none of these."""
    name = url.partition("://")[0].partition("+")[0].lower()
    if name not in KINDS:
        known = ", ".join(kind.url for kind in KINDS.values())
        raise ConfigurationError(f"no outbox is known to be possible in {name!r}", remedy=f"write one of {known}")
    return name


def place_in(url: str) -> str:
    """A name for errors, without a password."""
    parsed = _parsed(url)
    port = f":{parsed.port}" if parsed.port else ""
    database = parsed.database or parsed.query.get("service_name") or ""
    return f"{KINDS[name_in(url)].called} {parsed.host or ''}{port}/{database}"


def engine_in(url: str) -> AsyncEngine:
    """Connections of one's own, each transaction begun by its first statement. Raises MissingExtra, or
    ConfigurationError where the driver lacks something of the system's.
    """
    kind = KINDS[name_in(url)]
    address, arguments = _address(url)
    try:
        engine = create_async_engine(address, **OWN_POOL, connect_args=arguments)
    except ModuleNotFoundError as error:
        what = f"{kind.called} needs the library {error.name!r}, which is not installed"
        raise MissingExtra(what, remedy=f'pip install "fencepost[{kind.extra}]"') from error
    except ImportError as error:
        raise ConfigurationError(
            f"the driver of {kind.called} cannot be loaded: {error}",
            remedy="install what it needs of the system: for SQL Server unixODBC, and Microsoft's ODBC driver",
        ) from error
    reserve_words(engine.dialect)
    return engine


async def settle_in(connection: AsyncConnection, timeout_s: float) -> None:
    """Make a new connection ready: how long an answer may take, and how texts are compared."""
    for setting in KINDS[connection.dialect.name].settings:
        await connection.exec_driver_sql(setting.format(timeout_ms=max(1, int(timeout_s * 1000))))
    await connection.commit()


def _address(url: str) -> tuple[URL, dict[str, Any]]:
    """What SQLAlchemy connects to. asyncpg is handed the whole URL: it knows libpq's names, SQLAlchemy does not."""
    name = name_in(url)
    driver = KINDS[name].driver
    if name == "cockroachdb":
        return URL.create(driver), {"dsn": f"postgresql://{url.partition('://')[2]}"}
    return _parsed(url).set(drivername=driver), {}


def _parsed(url: str) -> URL:
    check_login(url)
    if name_in(url) == "cockroachdb":
        check_ports(url)
    try:
        return make_url(url)
    except (ArgumentError, ValueError) as error:
        example = KINDS[name_in(url)].url
        raise ConfigurationError("the URL of the database cannot be read", remedy=f"write {example}") from error
