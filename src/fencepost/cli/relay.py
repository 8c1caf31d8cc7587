"""`fencepost relay`: run until told to stop. The first SIGTERM or SIGINT drains, a second one ends it at once."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from pathlib import Path

from fencepost import app, plugins
from fencepost.app.process import dedicate
from fencepost.cli.early import EARLY, SAME_S, SIGNALS
from fencepost.cli.failures import MANNER
from fencepost.cli.settings import load_config
from fencepost.config import Config, mask_url
from fencepost.observers.log import LogObserver, configure
from fencepost.relay import Relay


def relay(file: Path | None) -> None:
    """Publish until stopped. Raises FixError where a person must change something before it can start."""
    run(load_config(file))


def run(config: Config) -> None:
    """The same with a configuration. Its secrets are replaced by ``MANNER.scrub``."""
    stream = sys.stderr if _publishes_to_stdout(config) else sys.stdout
    as_json = config.log.format == "json" or (config.log.format == "auto" and not stream.isatty())
    configure(as_json=as_json, level=config.log.level, stream=stream)
    observer = LogObserver(scrub=MANNER.scrub)
    try:
        asyncio.run(_serve(config, observer))
    finally:
        observer.close()


def _publishes_to_stdout(config: Config) -> bool:
    """Then the log must not stand between the messages."""
    brokers = (config.broker, *config.brokers.values())
    return any(plugins.spoken(each.url).startswith("stdout:") for each in brokers)


async def _serve(config: Config, observer: LogObserver) -> None:
    running = app.relay(config, observer)
    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        loop.add_signal_handler(number, _stop, running, number)
    brokers = ", ".join(mask_url(each.url, show_user=False) for each in (config.broker, *config.brokers.values()))
    _say("starting", f"relay {config.relay.name}: {mask_url(config.database.url)} to {brokers}")
    if EARLY.number is not None:
        _stop(running, EARLY.number)
    dedicate()
    await running.run()
    _say("stopped", f"relay {config.relay.name}: stopped")


def _stop(running: Relay, number: int) -> None:
    """Drain. Soon the signals have their ordinary effect: dying at any moment is safe, only less tidy."""
    loop = asyncio.get_running_loop()
    for each in SIGNALS:
        loop.add_signal_handler(each, _heard_already)
    loop.call_later(SAME_S, _let_die, loop)
    _say("stopping", f"{signal.Signals(number).name}: finishing what is in hand; once more to stop at once")
    running.stop()


def _heard_already() -> None:
    """A terminal signals a whole group, and a wrapper hands the same signal on: that is not somebody's second wish."""


def _let_die(loop: asyncio.AbstractEventLoop) -> None:
    for each in SIGNALS:
        loop.remove_signal_handler(each)
        signal.signal(each, signal.SIG_DFL)


def _say(event: str, text: str) -> None:
    logging.getLogger("fencepost").info(text, extra={"event": event})
