"""`fencepost parked`: which messages could not be published, and what is to become of them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

import typer

from fencepost import app
from fencepost.cli import output
from fencepost.cli.lengths import moment_of
from fencepost.cli.messages import described, line_of, lines_of, with_content
from fencepost.cli.settings import load_config
from fencepost.clock import SYSTEM_CLOCK
from fencepost.config import Config
from fencepost.errors import ConfigurationError, FixError
from fencepost.ports import ParkedFilter, ParkedMessage, ParkedStore
from fencepost.ports.parking import PARKED_BATCH
from fencepost.words import counted

_LIST = "`fencepost parked list` shows what is parked"
_DONE = {"retry": "retried", "discard": "discarded"}
_DISCARDED = "they are removed for good"
_RETRIED = "each goes to the end of its key{}, marked by the header fencepost-retried"
_WAITS_AGAIN = "each waits again where it stands in its table, as it is"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """Which messages are meant, as it was written on the command line."""

    topic: str | None
    key: str | None
    ids: Sequence[str] | None
    reason: str | None
    since: str | None
    before: str | None
    every: bool = False

    def filter(self) -> ParkedFilter:
        """The same, read. Raises ConfigurationError for a time that is none."""
        now = SYSTEM_CLOCK.now()
        return ParkedFilter(
            ids=tuple(self.ids) if self.ids else None,
            topic=self.topic,
            key=self.key,
            reason=self.reason,
            since=None if self.since is None else moment_of("--since", self.since, now),
            before=None if self.before is None else moment_of("--before", self.before, now),
        )


class Doing(NamedTuple):
    """What is to be done, and how."""

    action: Literal["retry", "discard"]
    limit: int | None
    keep_versions: bool
    dry_run: bool
    yes: bool
    as_json: bool


# -------------------------------------------------------------------------------------------------------------- looking


def show_list(file: Path | None, chosen: Chosen, *, limit: int, as_json: bool) -> None:
    """One line for each, and how many there are in all."""
    asyncio.run(_show_list(load_config(file), chosen.filter(), limit, as_json=as_json))


async def _show_list(config: Config, which: ParkedFilter, limit: int, *, as_json: bool) -> None:
    shown = 0
    async with app.parked(config) as store:
        count = await store.count(which)
        after: ParkedMessage | None = None
        while shown < limit and (page := await store.page(which, min(limit - shown, PARKED_BATCH), after)):
            for one in page:
                output.json_line(described(one)) if as_json else output.line(line_of(one))
            shown, after = shown + len(page), page[-1]
    if as_json:
        output.json_line({"shown": shown, "count": count})
    elif shown < count:
        output.line(f"{counted(shown, 'message')} of {count:,}; --limit shows more")
    else:
        output.line(counted(shown, "parked message"))


def show_one(file: Path | None, message_id: str, *, with_payload: bool, as_json: bool) -> None:
    """Everything that is known of one message. Raises FixError where it is not parked."""
    asyncio.run(_show_one(load_config(file), message_id, with_payload=with_payload, as_json=as_json))


async def _show_one(config: Config, message_id: str, *, with_payload: bool, as_json: bool) -> None:
    async with app.parked(config) as store:
        found = await store.page(ParkedFilter(ids=(message_id,)), PARKED_BATCH)
        if not found:
            raise _unknown([message_id])
        for one in found:
            shown = {**described(one), "headers": dict(one.message.headers or {})}
            if with_payload:
                shown |= with_content(await store.payload(one))
            if as_json:
                output.json_line(shown)
            else:
                for line in lines_of(shown):
                    output.line(line)


# ---------------------------------------------------------------------------------------------------------------- doing


def do(file: Path | None, chosen: Chosen, manner: Doing) -> None:
    """Retry or discard, after a question. Raises FixError where it is not clear which, or nobody can be asked."""
    config, which = load_config(file), chosen.filter()
    if which.everything and not chosen.every:
        raise ConfigurationError(
            f"it is not said which messages to {manner.action}",
            remedy="choose them with --id, --topic, --key, --reason, --since or --before, or take all of them: --all",
        )
    if chosen.every and not which.everything:
        raise ConfigurationError("--all beside a choice", remedy="leave --all out, or the choice")
    asyncio.run(_do(config, which, manner))


async def _do(config: Config, which: ParkedFilter, manner: Doing) -> None:
    meaning = _meaning(config, manner)
    async with app.parked(config) as store:
        await _check_ids(store, which)
        count = await store.count(which)
        count = count if manner.limit is None else min(count, manner.limit)
        if manner.dry_run:
            _tell(manner, app.WorkedOff(count, 0), f"would {manner.action} {counted(count, 'message')}: {meaning}")
            return
        if count and not manner.yes:
            _ask(f"{manner.action} {counted(count, 'message')}", meaning)
        so_far, reached = output.SoFar(_DONE[manner.action], "message", shown=not manner.as_json), app.WorkedOff(0, 0)
        act = store.discard if manner.action == "discard" else partial(store.retry, keep_versions=manner.keep_versions)
        async for reached in app.work_off_parked(store, which, act, limit=manner.limit):
            so_far(reached.done)
    gone = f"; {counted(reached.gone, 'message')} had gone already" if reached.gone else ""
    _tell(manner, reached, f"{_DONE[manner.action]} {counted(reached.done, 'message')}{gone}")


async def _check_ids(store: ParkedStore, which: ParkedFilter) -> None:
    """Ids that are written are meant: an unknown one is a mistake."""
    if which.ids is None:
        return
    found: set[str] = set()
    after: ParkedMessage | None = None
    only = ParkedFilter(ids=which.ids)
    while page := await store.page(only, PARKED_BATCH, after):
        found |= {one.message.id for one in page}
        after = page[-1]
    if unknown := [each for each in which.ids if each not in found]:
        raise _unknown(unknown)


def _unknown(ids: Sequence[str]) -> FixError:
    shown = ", ".join(each[:64] for each in ids[:5]) + (", ..." if len(ids) > 5 else "")
    return FixError(f"no message is parked with the id {shown}", remedy=_LIST)


def _meaning(config: Config, manner: Doing) -> str:
    if manner.action == "discard":
        return _DISCARDED
    if config.existing.table is not None:
        return _WAITS_AGAIN
    return _RETRIED.format("" if manner.keep_versions else " with its next version")


def _ask(what: str, meaning: str) -> None:
    if not sys.stdin.isatty():
        raise FixError(f"nobody is there to be asked whether to {what}", remedy="pass --yes, or look first: --dry-run")
    sys.stderr.write(f"{what}? {meaning} [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        output.line("nothing was changed")
        raise typer.Exit


def _tell(manner: Doing, reached: app.WorkedOff, text: str) -> None:
    if manner.as_json:
        done, gone = reached
        output.json_line({"action": manner.action, "messages": done, "gone": gone, "dry_run": manner.dry_run})
    else:
        output.line(text)
