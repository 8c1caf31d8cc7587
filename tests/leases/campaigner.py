"""Processes that campaign for leases and keep them: ``campaigner.py URL PREFIX TTL_S [OWNER NAME]...``.

Each owner is a process of its own; they are forked from one that has loaded everything, which ends after all of them.
Each line that it prints is a JSON object with the system's monotonic time, which all processes share. SIGTERM releases.
"""

import asyncio
import json
import os
import signal
import sys
import time

from fencepost import plugins
from fencepost.leases import Leadership, Tenure
from fencepost.ports import LeaseOptions, LeaseStore


def say(owner: str, what: str, **facts: object) -> None:
    line = json.dumps({"owner": owner, "what": what, "at_s": time.monotonic(), **facts})
    os.write(1, f"{line}\n".encode())  # at once and in one piece, beside those of the others


async def lead(tenure: Tenure, stop: asyncio.Event) -> None:
    """Say how long we are trusted, whenever that changes, until we stop or the lease is lost."""
    owner = tenure.term.owner
    say(owner, "leads", token=tenure.term.token, early=tenure.term.early)
    told_s = 0.0
    while not tenure.lost.is_set() and not stop.is_set():
        until_s = time.monotonic() + tenure.trusted_for_s()
        if abs(until_s - told_s) > 0.001:
            told_s = until_s
            say(owner, "trusted", until_s=until_s, token=tenure.term.token)
        await asyncio.sleep(0.01)
    say(owner, "lost" if tenure.lost.is_set() else "stops", trusted_for_s=tenure.trusted_for_s())


async def campaign(store: LeaseStore, owner: str, ttl_s: float, name: str) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await store.open()
    say(owner, "opened")
    leadership = Leadership(store, name, owner, ttl_s)
    while not stop.is_set():
        tenure = await leadership.campaign()
        try:
            await lead(tenure, stop)
            term = tenure.term
        finally:
            await tenure.release()
        say(owner, "released", renewed=await store.renew(term, ttl_s))
    await store.close()


def main(url: str, prefix: str, ttl_s: str, *owners: str) -> None:
    plugin = plugins.load("election", plugins.name_of("election", url))
    options = LeaseOptions(url=url, prefix=prefix)
    plugin.lease_store(options)  # it loads what a store needs, and connects to nothing
    running = {}
    for owner, name in zip(owners[::2], owners[1::2], strict=True):
        pid = os.fork()
        if not pid:
            asyncio.run(campaign(plugin.lease_store(options), owner, float(ttl_s), name))
            os._exit(0)
        running[pid] = owner
        say(owner, "started", pid=pid)
    while running:
        pid, status = os.wait()
        say(running.pop(pid), "ended", code=os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main(*sys.argv[1:])
