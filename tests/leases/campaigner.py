"""A process of its own that campaigns for a lease and keeps it: ``campaigner.py URL PREFIX OWNER TTL_S NAME``.

Each line that it prints is a JSON object with the system's monotonic time, which all processes share. SIGTERM releases.
"""

import asyncio
import json
import signal
import sys
import time

from fencepost import plugins
from fencepost.leases import Leadership, Tenure
from fencepost.ports import LeaseOptions, LeaseStore


def say(what: str, **facts: object) -> None:
    print(json.dumps({"what": what, "at_s": time.monotonic(), **facts}), flush=True)


async def lead(tenure: Tenure, stop: asyncio.Event) -> None:
    """Say how long we are trusted, whenever that changes, until we stop or the lease is lost."""
    say("leads", token=tenure.term.token, early=tenure.term.early)
    told_s = 0.0
    while not tenure.lost.is_set() and not stop.is_set():
        until_s = time.monotonic() + tenure.trusted_for_s()
        if abs(until_s - told_s) > 0.001:
            told_s = until_s
            say("trusted", until_s=until_s, token=tenure.term.token)
        await asyncio.sleep(0.005)
    say("lost" if tenure.lost.is_set() else "stops", trusted_for_s=tenure.trusted_for_s())


async def main(url: str, prefix: str, owner: str, ttl_s: float, name: str) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    store: LeaseStore = plugins.load("election", plugins.name_of("election", url)).lease_store(
        LeaseOptions(url=url, prefix=prefix)
    )
    await store.open()
    say("opened")
    leadership = Leadership(store, name, owner, ttl_s)
    while not stop.is_set():
        tenure = await leadership.campaign()
        try:
            await lead(tenure, stop)
            term = tenure.term
        finally:
            await tenure.release()
        say("released", renewed=await store.renew(term, ttl_s))
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4]), sys.argv[5]))
