"""From a configuration to its parts, where a plug-in is a module of somebody else's."""

from __future__ import annotations

from pathlib import Path

import pytest

from fencepost import app
from fencepost.config import Config, load
from fencepost.errors import ConfigurationError

THEIRS = "fencepost.databases.memory+memory://building"
"""By its dotted name a module of this project is like anybody else's."""


def config(database: str, **more: str) -> Config:
    values = {"RELAY__NAME": "building", "DATABASE__URL": database, "BROKER__URL": "memory://building", **more}
    return load(None, {f"FENCEPOST_{name}": value for name, value in values.items()})


def test_a_database_that_keeps_no_leases_needs_them_elsewhere() -> None:
    with pytest.raises(
        ConfigurationError, match=r"\[database\] url .*fencepost.databases.memory keeps no leases"
    ) as told:
        app.lease_store(config(THEIRS))
    assert 'write url = "sqlite:///leases.db" in [lease]' in told.value.remedy
    app.lease_store(config(THEIRS, LEASE__URL="memory://building"))


def test_a_module_that_is_no_plugin_is_told() -> None:
    wrong = config("fencepost.words+memory://building", BROKER__URL="fencepost.words+memory://building")
    for build, name in ((app.source, "source"), (app.schema, "schema"), (app.broker, "broker")):
        with pytest.raises(ConfigurationError, match=rf"the module fencepost\.words has no {name}\(options\)"):
            build(wrong)


def test_leases_beside_the_outbox_have_no_tables_of_their_own(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/shop.db"
    assert app.lease_schema(config(url)) is None
    assert app.lease_schema(config(url, LEASE__URL=url)) is None


async def test_leases_elsewhere_have_tables_there(tmp_path: Path) -> None:
    schema = app.lease_schema(config(THEIRS, LEASE__URL=f"sqlite:///{tmp_path}/leases.db", DATABASE__PREFIX="shop_"))
    assert schema is not None
    assert "shop_lease" in await schema.apply()
    store = app.lease_store(config(THEIRS, LEASE__URL=f"sqlite:///{tmp_path}/leases.db", DATABASE__PREFIX="shop_"))
    await store.open()
    await store.rehearse()
    await store.close()
