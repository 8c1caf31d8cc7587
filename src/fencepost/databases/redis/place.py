"""Where an outbox in Redis is: the server, or the node of a cluster, that has its keys, and whether it will do."""

from __future__ import annotations

from fencepost.databases.redis.keys import Keys, keys_of
from fencepost.databases.redis.scripts import REHEARSE
from fencepost.errors import FixError, Unavailable
from fencepost.ports import DatabaseOptions
from fencepost.resp.address import address_of
from fencepost.resp.keeping import must_keep
from fencepost.resp.link import Link, opened
from fencepost.resp.server import Home, home_of, is_tagged, server_of, untagged


class Outbox:
    """One outbox."""

    def __init__(self, options: DatabaseOptions) -> None:
        self.options = options
        self.keys: Keys = keys_of(options.prefix, options.schema)
        self._address = address_of(options.url)
        self.place = self._address.place
        if self._address.clustered and not is_tagged(options.prefix):
            raise untagged(options.prefix, self.place)

    async def links(self, count: int) -> list[Link]:
        """New links to the one server that has the keys. Raises FixError, Unavailable or DeadlineExceeded."""
        home = await home_of(self._address, self.options.prefix, self.options.timeout_s)
        found = [home.link]
        try:
            must_keep(home.server, self.place)
            await self._rehearse(home.link)
            for _ in range(count - 1):
                found.append(await opened(self._address, self.options.timeout_s, home.node))
                await self._check_same(found[-1], home)
        except BaseException:
            for link in found:
                await link.end("connecting failed")
            raise
        return found

    async def _check_same(self, link: Link, home: Home) -> None:
        """Messages that are read in one server and settled in another would be published for ever."""
        if (await server_of(link)).run_id != home.server.run_id:
            raise Unavailable(f"{self.place} leads to two different servers", remedy="name one of them")

    async def _rehearse(self, link: Link) -> None:
        """Nothing is changed; what a relay may not do, and keys that are something else, show now."""
        try:
            await link.run(REHEARSE, self.keys.all_but_entities)
        except FixError as error:
            needs = f"{error.what} (a relay needs the keys {self.keys.prefix}*)"
            raise type(error)(needs, remedy=error.remedy) from error
