"""Where a PostgreSQL is: a URL, as asyncpg reads it."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlencode

from fencepost.errors import ConfigurationError
from fencepost.plugins import name_of
from fencepost.sql.address import check_options, check_ports
from fencepost.words import suggestion

_OPTIONS = (
    *("application_name", "database", "dbname", "host", "krbsrvname", "passfile", "password", "port", "service"),
    *("servicefile", "ssl", "ssl_max_protocol_version", "ssl_min_protocol_version", "sslcert", "sslcrl", "sslkey"),
    *("sslmode", "sslpassword", "sslrootcert", "target_session_attrs", "user"),
)
_MODES = ("allow", "disable", "prefer", "require", "verify-ca", "verify-full")

# Parameters of URLs that other drivers know; asyncpg would hand them to the server as settings.
_OF_OTHERS = {
    "async_fallback",
    "channel_binding",
    "command_timeout",
    "connect_timeout",
    "gssencmode",
    "keepalives",
    "keepalives_count",
    "keepalives_idle",
    "keepalives_interval",
    "prepared_statement_cache_size",
    "prepared_statement_name_func",
    "sslcompression",
    "statement_cache_size",
    "tcp_user_timeout",
}


def dsn_of(url: str) -> str:
    """The URL as asyncpg reads it: no driver in the scheme, libpq's names, a name for pg_stat_activity.

    Raises ConfigurationError where it is not the URL of a PostgreSQL.
    """
    if name_of("database", url) != "postgresql":
        raise ConfigurationError("not the URL of a PostgreSQL", remedy="write postgresql://user@host:port/database")
    check_ports(url)
    rest, _, query = url.partition("://")[2].partition("?")
    terms = {"sslmode" if k == "ssl" else k: v for k, v in parse_qsl(query) if k not in _OF_OTHERS}
    check_options(terms, _OPTIONS)
    if terms.get("sslmode", "").lower() in {"true", "1"}:
        terms["sslmode"] = "require"
    if (mode := terms.get("sslmode", _MODES[0])) not in _MODES:
        raise ConfigurationError(f"the URL has sslmode={mode}", remedy=suggestion(mode, _MODES))
    return f"postgresql://{rest}?{urlencode({'application_name': 'fencepost', **terms})}"
