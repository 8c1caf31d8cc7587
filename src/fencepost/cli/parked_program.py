"""The commands of `fencepost parked`, their options and their help."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from fencepost.cli.options import ConfigFile, Debug, Json, interruptible

Topic = Annotated[str | None, typer.Option(metavar="TOPIC", help="A topic, or a pattern with *, ? and [...].")]
Key = Annotated[str | None, typer.Option(metavar="KEY", help="A key, exactly.")]
Ids = Annotated[
    list[str] | None, typer.Option("--id", metavar="ID", help="A message's id. May be given several times.")
]
Reason = Annotated[str | None, typer.Option(metavar="TEXT", help="A part of the reason, in capitals or not.")]
Since = Annotated[
    str | None, typer.Option(metavar="TIME", help="Parked since: 2026-03-01T12:00 (UTC), or how long ago: 90s, 2h, 7d.")
]
Before = Annotated[str | None, typer.Option(metavar="TIME", help="Parked before, written in the same way.")]
Every = Annotated[bool, typer.Option("--all", help="All of them; needed where nothing else says which.")]
AtMost = Annotated[
    int | None, typer.Option("--limit", metavar="NUMBER", min=1, help="At most so many, the oldest first.")
]
Counting = Annotated[bool, typer.Option("--dry-run", help="Count them and change nothing.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def commands(mode: Literal["rich"] | None) -> typer.Typer:
    """All of them. ``mode``: how their help is written."""
    group = typer.Typer(no_args_is_help=True, rich_markup_mode=mode, help=_parked.__doc__)
    for name, command in (("list", _list), ("show", _show), ("retry", _retry), ("discard", _discard)):
        group.command(name)(command)
    return group


def _parked() -> None:
    """List, retry or discard messages that could not be published."""


def _list(
    config: ConfigFile = None,
    topic: Topic = None,
    key: Key = None,
    ids: Ids = None,
    reason: Reason = None,
    since: Since = None,
    before: Before = None,
    limit: Annotated[int, typer.Option(metavar="NUMBER", min=1, help="At most so many, the oldest first.")] = 20,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object for each, and one at the end.")
    ] = False,
    debug: Debug = False,
) -> None:
    """List parked messages and why they were parked, the oldest first.

    Example: fencepost parked list --topic 'orders.*' --reason 'too large'
    """
    from fencepost.cli import parked as command

    chosen = command.Chosen(topic=topic, key=key, ids=ids, reason=reason, since=since, before=before)
    interruptible(lambda: command.show_list(config, chosen, limit=limit, as_json=as_json))


def _show(
    message_id: Annotated[str, typer.Argument(metavar="ID", help="The message's id.")],
    config: ConfigFile = None,
    payload: Annotated[
        bool, typer.Option("--payload", help="Its payload too: as text, or as base64 where it is none.")
    ] = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Show one parked message, without its payload unless that is asked for."""
    from fencepost.cli import parked as command

    interruptible(lambda: command.show_one(config, message_id, with_payload=payload, as_json=as_json))


def _retry(
    config: ConfigFile = None,
    topic: Topic = None,
    key: Key = None,
    ids: Ids = None,
    reason: Reason = None,
    since: Since = None,
    before: Before = None,
    every: Every = False,
    limit: AtMost = None,
    keep_version: Annotated[
        bool,
        typer.Option(
            "--keep-version",
            help="Keep versions: where the application gives them itself, or readers are to see that it is old.",
        ),
    ] = False,
    dry_run: Counting = False,
    yes: Yes = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Have parked messages tried again, once the cause is mended.

    Each goes to the end of its key, with the next version of it and the header fencepost-retried. Interrupting it is
    harmless, and so is running it twice.

    Example: fencepost parked retry --topic orders --reason 'too large' --dry-run
    """
    from fencepost.cli import parked as command

    chosen = command.Chosen(topic=topic, key=key, ids=ids, reason=reason, since=since, before=before, every=every)
    manner = command.Doing("retry", limit, keep_version, dry_run, yes, as_json)
    interruptible(lambda: command.do(config, chosen, manner))


def _discard(
    config: ConfigFile = None,
    topic: Topic = None,
    key: Key = None,
    ids: Ids = None,
    reason: Reason = None,
    since: Since = None,
    before: Before = None,
    every: Every = False,
    limit: AtMost = None,
    dry_run: Counting = False,
    yes: Yes = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Remove parked messages for good: nobody will ever read them.

    Example: fencepost parked discard --id 019a2f6e-6c63-7cc4-8c1a-5f0f3ac01d2e
    """
    from fencepost.cli import parked as command

    chosen = command.Chosen(topic=topic, key=key, ids=ids, reason=reason, since=since, before=before, every=every)
    manner = command.Doing("discard", limit, False, dry_run, yes, as_json)
    interruptible(lambda: command.do(config, chosen, manner))
