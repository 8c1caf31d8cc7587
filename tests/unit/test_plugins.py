"""Names of plug-ins, what a plug-in says of its settings, and how an extra is installed."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost import plugins
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
