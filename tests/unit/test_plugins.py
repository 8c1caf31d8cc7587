"""Names of plug-ins, what a plug-in says of its settings, and how an extra is installed."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost import plugins
from fencepost.config import load
from fencepost.errors import ConfigurationError, UnknownPlugin

PIP = 'pip install "fencepost[kafka]"'


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """What pip wrote about an installation of this program that comes before the real one."""
    folder = tmp_path / "fencepost-9.9.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: fencepost\nVersion: 9.9\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    plugins._checkout.cache_clear()
    yield folder
    plugins._checkout.cache_clear()


@pytest.mark.parametrize(
    ("origin", "remedy"),
    [
        (None, PIP),
        ({"url": "file:///a%20clone", "dir_info": {"editable": True}}, 'pip install -e "/a clone[kafka]"'),
        ({"url": "file:///a", "dir_info": {}}, PIP),
        ({"url": "file:///a.whl", "archive_info": {}}, PIP),
    ],
)
def test_an_extra_is_installed_as_the_program_was(
    origin: dict[str, object] | None, remedy: str, installed: Path
) -> None:
    if origin is not None:
        (installed / "direct_url.json").write_text(json.dumps(origin))
    assert plugins.as_installed(PIP) == remedy
    assert plugins.as_installed(remedy) == remedy
    assert plugins.as_installed("start the server") == "start the server"


def test_a_plug_in_is_asked_for_what_it_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_brokers").mkdir()
    (tmp_path / "my_brokers" / "pigeon.py").write_text(
        "from fencepost.errors import ConfigurationError\n\n\n"
        "def refused(url, settings):\n"
        "    return {name: ConfigurationError(f'no {name} at {url}') for name in settings if name != 'wings'}\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    found = plugins.refused("broker", "my_brokers.pigeon://loft", {"wings": 2, "wheels": 4})
    assert {name: error.what for name, error in found.items()} == {"wheels": "no wheels at my_brokers.pigeon://loft"}


@pytest.mark.parametrize("url", ["no.such.module://x", "nobody://x", "json.decoder://x", "not a URL"])
def test_a_plug_in_that_has_no_word_on_it(url: str) -> None:
    assert plugins.refused("broker", url, {"wheels": 4}) == {}


def test_an_unknown_plug_in_is_refused_where_it_is_needed() -> None:
    with pytest.raises(UnknownPlugin, match=r"known are .*kafka, memory, .*nats"):
        plugins.load("broker", "nobody")
    with pytest.raises(ConfigurationError, match="is not a broker URL"):
        plugins.name_of("broker", "not a URL")


def test_wherever_a_name_is_not_known_a_module_of_ones_own_is_offered(tmp_path: Path) -> None:
    """In one wording, also by a configuration: a name without a dot is none, and without :// nothing is a URL."""
    told = []
    for url in ("acme+pile:///x", "acme.bus+pile:x"):
        file = tmp_path / "fencepost.toml"
        file.write_text(f'[relay]\nname = "a"\n[database]\nurl = "sqlite:///a.db"\n[broker]\nurl = "{url}"\n')
        with pytest.raises(ConfigurationError) as refused:
            load(file, {})
        told.append(str(refused.value))
    with pytest.raises(UnknownPlugin) as unknown:
        plugins.load("broker", plugins.name_of("broker", "acme+pile:///x"))
    with pytest.raises(ConfigurationError) as no_url:
        plugins.name_of("broker", "acme.bus+pile:x")
    known = f"known are {', '.join(plugins.names('broker'))}, or the dotted name of a module of your own"
    assert unknown.value.remedy == known
    assert no_url.value.remedy.startswith("write scheme://..., the scheme being one of amqp, file, http, inbox+")
    assert no_url.value.remedy.endswith("or my.module+scheme://... for a module of your own")
    for by_configuration, remedy in zip(told, (unknown.value.remedy, no_url.value.remedy), strict=True):
        assert remedy in by_configuration


def test_the_name_of_a_module_is_as_it_is_written() -> None:
    assert plugins.name_of("broker", "Acme.Bus+lmdb:///x") == "Acme.Bus"
    assert plugins.name_of("broker", "NATS+TLS://h") == "nats"


@pytest.mark.parametrize(
    ("name", "url", "told"),
    [
        ("acme.bus", "lmdb:///x", "acme.bus+lmdb:///x"),
        ("acme.bus", "acme.bus+lmdb:///x", "acme.bus+lmdb:///x"),
        ("nats", "nats+tls://h", "nats+tls://h"),
    ],
)
def test_a_module_is_told_the_url_with_its_name(name: str, url: str, told: str) -> None:
    assert plugins.told(name, url) == told
    assert plugins.spoken(told) == plugins.spoken(url)
