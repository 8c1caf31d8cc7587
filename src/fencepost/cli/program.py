"""The commands, their options and their help. What a command needs is imported when it runs: help should be quick."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, cast

import typer
from typer.core import TyperGroup

from fencepost.cli import kit, parked_program
from fencepost.cli.options import ConfigFile, Debug, Json, interruptible

_EXIT_CODES = (
    "Exit codes: 0 all is well, 1 check, demo, torture or simulate found a problem, 2 the command line, the "
    "configuration or a server needs a person to change something, 3 a server cannot be reached, 130 interrupted."
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"fencepost {version('fencepost')}")
        raise typer.Exit


Version = Annotated[
    bool, typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True)
]


def program(*, pretty: bool) -> TyperGroup:
    """The command with all its subcommands. ``pretty``: help in boxes and colours, for a terminal."""
    mode: Literal["rich"] | None = "rich" if pretty else None
    cli = typer.Typer(
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=mode,
        epilog=_EXIT_CODES,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    cli.callback()(_root)
    for command in (init, check, relay, status, purge, demo):
        cli.command()(command)
    tables = typer.Typer(no_args_is_help=True, rich_markup_mode=mode, help=_schema.__doc__)
    tables.command("print")(schema_print)
    tables.command("apply")(schema_apply)
    cli.add_typer(tables, name="schema")
    cli.add_typer(parked_program.commands(mode), name="parked")
    group = cast("TyperGroup", typer.main.get_command(cli))
    for name in kit.COMMANDS:
        group.add_command(kit.Later(name, mode))
    return group


def _root(version: Version = False, debug: Debug = False) -> None:
    """Delivers what a service committed: messages from a transactional outbox to a broker, in order, exactly once.

    Begin with `fencepost demo`, or with `fencepost init` in the folder of your service.
    """


def _schema() -> None:
    """Print or create the tables of the outbox."""


def init(
    name: Annotated[
        str | None, typer.Option(help="The name of the outbox and its relays. Default: made of the folder's.")
    ] = None,
    database: Annotated[str, typer.Option(metavar="URL", help="The database of your service.")] = "sqlite:///orders.db",
    broker: Annotated[str, typer.Option(metavar="URL", help="Where messages go.")] = "nats://127.0.0.1:4222",
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
    config: Annotated[Path, typer.Option("--config", "-c", metavar="FILE", help="The file to write.")] = Path(
        "fencepost.toml"
    ),
    debug: Debug = False,
) -> None:
    """Write a commented fencepost.toml.

    It works as it is, with a SQLite file and a NATS server on this machine.

    Example: fencepost init --database 'postgresql://app:${DB_PASSWORD}@db/shop' --broker kafka://kafka:9092
    """
    from fencepost.cli import init as command

    interruptible(lambda: command.init(config, name=name, database=database, broker=broker, force=force))


def schema_print(config: ConfigFile = None, as_json: Json = False, debug: Debug = False) -> None:
    """Print the DDL for the configured database. Connects to nothing.

    Example: fencepost schema print | psql "$DATABASE_URL"
    """
    from fencepost.cli import schema as command

    interruptible(lambda: command.show(config, as_json=as_json))


def schema_apply(config: ConfigFile = None, as_json: Json = False, debug: Debug = False) -> None:
    """Create the tables that are missing. Running it again is harmless."""
    from fencepost.cli import schema as command

    interruptible(lambda: command.apply(config, as_json=as_json))


def check(config: ConfigFile = None, as_json: Json = False, debug: Debug = False) -> None:
    """Connect to everything, say what is wrong.

    Asks the database, the lease store and the broker; says which delivery is possible, which one is in force and why.
    Changes nothing. Exits with 1 where something is wrong, with 3 where only servers cannot be reached.
    """
    from fencepost.cli import check as command

    interruptible(lambda: command.check(config, as_json=as_json))


def relay(config: ConfigFile = None, debug: Debug = False) -> None:
    """Publish messages until stopped.

    Start as many as you like: one leads, the others stand by.
    SIGTERM or Ctrl-C finishes what is in hand and hands over at once; a second one ends the process immediately.
    A server that cannot be reached is waited for; what a person must change ends the command with exit code 2.
    """
    from fencepost.cli import relay as command

    interruptible(lambda: command.relay(config))


def status(
    config: ConfigFile = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Look again and again, until Ctrl-C.")] = False,
    every: Annotated[float, typer.Option(metavar="SECONDS", min=0.1, help="How often --watch looks.")] = 2.0,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Show the backlog, who leads, and the delivery in force."""
    from fencepost.cli import status as command

    interruptible(lambda: command.status(config, watch=watch, every_s=every, as_json=as_json))


def purge(
    config: ConfigFile = None,
    older_than: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="How long ago a row was settled: 90s, 30m, 12h, 7d. Default: [database] retention_s."
        ),
    ] = None,
    batch: Annotated[int, typer.Option(min=1, max=100_000, help="Rows of one transaction.")] = 1000,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count them and change nothing.")] = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Remove settled rows that are old enough.

    For outboxes with settle = "mark". What is not settled is never touched: not what waits, is delayed, is being sent
    or is parked, whatever its age. Interrupting it is harmless.

    Example: fencepost purge --older-than 30d --dry-run
    """
    from fencepost.cli import purge as command

    interruptible(lambda: command.purge(config, older_than=older_than, batch=batch, dry_run=dry_run, as_json=as_json))


def demo(
    database: Annotated[
        str | None, typer.Option(metavar="URL", help="Your database. Default: a SQLite file of its own.")
    ] = None,
    broker: Annotated[
        str | None, typer.Option(metavar="URL", help="Your broker. Default: a NATS server of its own.")
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config", "-c", metavar="FILE", help="Your servers, with all that this configuration says of them."
        ),
    ] = None,
    seconds: Annotated[float, typer.Option(min=1, max=3600, help="How long orders are placed.")] = 20.0,
    rate: Annotated[float, typer.Option(min=1, max=5000, help="Orders per second.")] = 200.0,
    kills: Annotated[int, typer.Option(min=0, max=1000, help="How often the leader is killed (SIGKILL).")] = 5,
    pause: Annotated[bool, typer.Option(help="Also pause the leader past its lease (SIGSTOP).")] = True,
    seed: Annotated[int | None, typer.Option(help="Draw the same moments and orders again.")] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Leave files, logs, tables and topics where they are.")] = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Kill relays and count what arrives.

    Watch committed orders arrive at a real broker, none lost, none repeated, none out of order.
    Two writers commit orders and their messages (one in ten is rolled back), two relay processes publish them, and
    the leading one is killed again and again. At the end the whole stream is read back and compared with the table
    of orders. Everything that was made for it is removed. Exits with 0 only if nothing is wrong.

    Example: fencepost demo --database postgresql://postgres@localhost/postgres --broker kafka://localhost:9092

    Example: fencepost demo --config fencepost.toml
    """
    from fencepost.cli import demo as command
    from fencepost.cli.settings import load_config
    from fencepost.demo import DemoOptions

    options = DemoOptions(
        database=database,
        broker=broker,
        config=None if config is None else load_config(config),
        seconds=seconds,
        rate_per_s=rate,
        kills=kills,
        pause=pause,
        seed=seed,
        keep=keep,
    )
    interruptible(lambda: command.show(options, as_json=as_json))
