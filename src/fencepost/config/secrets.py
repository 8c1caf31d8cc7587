"""What of a configuration may be shown: passwords in URLs and values of keys that look secret become ``***``."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from itertools import chain, count
from urllib.parse import unquote

from fencepost.config.records import NAMED, SECTIONS, Config

MASK = "***"
_SCRUBBED_CHARACTERS_MIN = 4  # a shorter secret would blacken half of every text

_SECRET_NAME = re.compile(
    r"(?i)pass(?:word|wd|phrase|code|\b)|secret|token|credential|api[._-]?key|private|jaas|user\.info|creds|nkey|seed|key\.pem|oauthbearer"
)
_OF_FILE = re.compile(r"(?:\A|\.)(?:credentials|nkey_seed)\Z|[._](?:file|location|path)\Z")
"""Keys whose values are paths. Where somebody has put what is in the file there instead, it stays hidden."""
_PATH = re.compile(r"(?=[^\r\n]{1,255}\Z)(?:[^-].*[/\\].*|[/\\].*|.*\.[A-Za-z][A-Za-z0-9]{0,7})\Z")
_SCHEME = re.compile(r"\A[A-Za-z][A-Za-z0-9+._-]*://")
_SERVERS = re.compile(r"(?:[^,:]+(?::\d+)?,)+(?:[A-Za-z][A-Za-z0-9+.-]*://)?(?=[^,]*:|[^,:]+\Z)")
"""Servers of a list, up to the user of the next one."""

_CALLED = ("http://", "https://")
_BEHIND_SERVER = re.compile(r"[/?#].+", re.DOTALL)
_PARAMETER = re.compile(r"([?&])([^=&#]+)=([^&#]*)")


def looks_secret(name: str) -> bool:
    """True for the name of a key whose value should not be shown."""
    return _SECRET_NAME.search(name) is not None


def is_secret(name: str, value: object) -> bool:
    """True where the value of a key should not be shown: its name looks secret, and it is not the path of a file."""
    return looks_secret(name) and not (_OF_FILE.search(name) and isinstance(value, str) and _PATH.match(value))


def mask_url(url: str, *, show_user: bool = True) -> str:
    """A URL without its password and without secret parameters.

    A user without a password is a token for some brokers, and so are path and query of a webhook:
    ``show_user=False`` masks them too.
    """
    scheme, credentials, rest = _split(url)
    if not show_user and scheme.lower() in _CALLED:
        rest = _BEHIND_SERVER.sub(f"/{MASK}", rest)
    shown = "".join(f"{before}{_mask_user(user_info, show_user)}@" for before, user_info in credentials)
    return scheme + shown + _PARAMETER.sub(lambda m: f"{m[1]}{m[2]}={MASK if looks_secret(m[2]) else m[3]}", rest)


def _split(url: str) -> tuple[str, list[tuple[str, str]], str]:
    """The scheme, (what stands before it, user information) for each server of a list, and the rest.

    Everything up to the last @ counts, so that a password with unescaped / ? # , or @ in it is not shown in part.
    """
    match = _SCHEME.match(url)
    if match is None:
        return "", [], url
    head, at, rest = url[match.end() :].rpartition("@")
    if not at:
        return match[0], [], rest
    credentials: list[tuple[str, str]] = []
    for part in head.split("@"):
        servers = _SERVERS.match(part)
        if not credentials:
            credentials.append(("", part))
        elif servers:
            credentials.append((servers[0], part[servers.end() :]))
        else:  # an @ inside a password
            before, started = credentials[-1]
            credentials[-1] = (before, f"{started}@{part}")
    return match[0], credentials, rest


def _mask_user(user_info: str, show_user: bool) -> str:
    user, colon, _ = user_info.partition(":")
    if colon:
        return f"{user}:{MASK}"
    return user if show_user else MASK


def withheld(url: str, stem: str, *, show_user: bool) -> tuple[str, dict[str, str]]:
    """The URL with a ``${STEM_...}`` for every secret, and what the environment variables of these names must be.

    What is ``${...}`` already stays. ``show_user`` is as in ``mask_url``.
    """
    variables: dict[str, str] = {}

    def variable(kind: str, secret: str) -> str:
        if not secret or "${" in secret:
            return secret
        name = re.sub(r"\W", "_", f"{stem}_{kind}").upper()
        names = chain([name], (f"{name}_{number}" for number in count(2)))
        found = next(each for each in names if variables.get(each, secret) == secret)
        variables[found] = secret
        return f"${{{found}}}"

    def login(user_info: str) -> str:
        user, colon, password = user_info.partition(":")
        if colon:
            return f"{user}:{variable('password', unquote(password))}"
        return user if show_user else variable("token", unquote(user))

    scheme, credentials, rest = _split(url)
    if not show_user and scheme.lower() in _CALLED and "{" not in rest:
        rest = re.sub(r"(?<=/).+", lambda m: variable("path", m[0]), rest, count=1, flags=re.DOTALL)
    shown = "".join(f"{before}{login(user_info)}@" for before, user_info in credentials)
    parameters = _PARAMETER.sub(lambda m: f"{m[1]}{m[2]}={variable(m[2], m[3]) if looks_secret(m[2]) else m[3]}", rest)
    return scheme + shown + parameters, variables


def masked(config: Config) -> dict[str, dict[str, object]]:
    """Section -> key -> value, fit to be shown."""
    several = {f"{family}.{name}": record for family in NAMED for name, record in getattr(config, family).items()}
    records = {name: getattr(config, name) for name in SECTIONS} | several
    return {name: _masked_section(name, record) for name, record in records.items()}


def _masked_section(section: str, record: object) -> dict[str, object]:
    shown: dict[str, object] = {}
    for field in dataclasses.fields(record):  # type: ignore[arg-type]
        value = getattr(record, field.name)
        if field.name == "settings":
            shown.update({k: _masked_value(section, k, v) for k, v in value.items()})
        else:
            shown[field.name] = _masked_value(section, field.name, value)
    return shown


def _masked_value(section: str, name: str, value: object) -> object:
    if value is not None and is_secret(name, value):
        return MASK
    if isinstance(value, str) and "://" in value:
        return mask_url(value, show_user=section.partition(".")[0] not in ("broker", "brokers"))
    return value


def scrubber(config: Config) -> Callable[[str], str]:
    """A function that replaces the configuration's secrets in any text, for what a library says in its own words."""
    found = sorted({s for s in _secrets(config) if len(s) >= _SCRUBBED_CHARACTERS_MIN}, key=len, reverse=True)
    if not found:
        return lambda text: text
    pattern = re.compile("|".join(rf"(?<!\w){re.escape(secret)}(?!\w)" for secret in found))
    return lambda text: pattern.sub(MASK, text)


def _secrets(config: Config) -> set[str]:
    found: set[str] = set()
    brokers = [config.broker, *config.brokers.values()]
    urls = [(config.database.url, True), (config.lease_url, True), *((broker.url, False) for broker in brokers)]
    for url, show_user in urls:
        found |= _url_secrets(url, show_user)
    for settings in (config.lease.settings, *(broker.settings for broker in brokers)):
        for name, value in settings.items():
            texts = value if isinstance(value, list | tuple) else [value]
            found |= {str(text) for text in texts if is_secret(name, text)}
            found |= {secret for text in texts if "://" in str(text) for secret in _url_secrets(str(text), False)}
    return found | {unquote(secret) for secret in found}


def _url_secrets(url: str, show_user: bool) -> set[str]:
    _, credentials, rest = _split(url)
    found = {m[3] for m in _PARAMETER.finditer(rest) if looks_secret(m[2])}
    for _, user_info in credentials:
        user, colon, password = user_info.partition(":")
        if colon or not show_user:
            found.add(password if colon else user)
    return found
