# No "from __future__ import annotations" here: types may be types, as authors of plug-ins may have them.
"""How plug-ins read their own settings: what an author says of them, and what becomes of each mistake."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from fencepost import settings
from fencepost.errors import ConfigurationError, MissingExtra
from fencepost.servers import split
from fencepost.settings import path, refusing, setting, table, text, texts, whole


@dataclass(frozen=True, slots=True, kw_only=True)
class Acme(settings.Settings):
    title = "Acme"

    prefix: str = ""
    durable: bool = True
    batch_max: int = setting(500, whole(1, 1_000))
    idle_s: float | None = None
    nodes: tuple[str, ...] = setting((), texts('a list of nodes such as ["a"]'))
    names: Mapping[str, str] = table(text, example='a table such as [broker.names] a = "b"')
    tokens: Mapping[str, str] = table(text, alone="*", secret=True)
    licence: str = setting("", path)

    def unfit(self) -> Iterator[tuple[str, str | ConfigurationError]]:
        if self.batch_max > 10 and not self.durable:
            yield "batch_max", "at most 10 without durable"
            yield "durable", ConfigurationError("durable is false")


def test_what_is_written_is_read() -> None:
    given = {
        "prefix": 7,
        "durable": False,
        "batch_max": 9,
        "idle_s": 2,
        "nodes": "a, b,",
        "names.x.y": "z",
        "tokens": "t",
    }
    assert Acme.read(given | {"tokens.a": "u"}) == Acme(
        prefix="7", durable=False, batch_max=9, idle_s=2.0, nodes=("a", "b"), names={"x.y": "z"},
        tokens={"*": "t", "a": "u"},
    )  # fmt: skip
    assert Acme.read({}) == Acme()


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("prefx", "a", "the Acme broker has no setting 'prefx': did you mean 'prefix'? known are batch_max, durable"),
        ("tokns.a", "a", "tokens, tokens.TOPIC"),
        ("prefix.a", "a", "has no setting 'prefix.a'"),
        ("prefix", 1.5, "the Acme setting prefix = 1.5 is not usable: it must be a text"),
        ("durable", 1, "true or false"),
        ("batch_max", 1_001, "a whole number from 1 to 1,000"),
        ("batch_max", True, "a whole number from"),
        ("idle_s", 0, "a number of seconds above 0"),
        ("nodes", ["a", 5], "a list of nodes"),
        ("names", "b", "a table such as"),
        ("names.", "b", "a table such as"),
        ("tokens", ["hush"], "the Acme setting tokens = *** is not usable"),
        ("tokens.a", ["hush"], "the Acme setting tokens.a = *** is not usable"),
        ("licence", "/no/such/file", "there is no file '/no/such/file', which licence names"),
    ],
)
def test_a_mistake_is_told_by_its_name(name: str, value: object, said: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Acme.read({name: value})
    assert said in str(caught.value)


def test_a_file_is_looked_for_by_read_alone(tmp_path: Path) -> None:
    file = tmp_path / "licence"
    assert Acme.parse({"licence": str(file)})[1] == {}
    file.touch()
    assert Acme.read({"licence": str(file)}).licence == str(file)


def test_what_does_not_fit_is_told_of_what_was_written() -> None:
    assert list(Acme.parse({"durable": False})[1]) == ["durable"]
    _, errors = Acme.parse({"durable": False, "batch_max": 11})
    assert {name: error.remedy for name, error in errors.items()} == {
        "batch_max": "it must be at most 10 without durable", "durable": ""
    }  # fmt: skip


def test_everything_is_told_at_once_and_a_missing_library_later() -> None:
    def check(url: str) -> None:
        if url != "acme://a":
            raise (MissingExtra if url == "acme://extra" else ConfigurationError)("no")

    refused = refusing(Acme, check)
    assert list(refused("b", {"prefx": 1, "durable": 2})) == ["url", "prefx", "durable"]
    assert list(refused("acme://extra", {"durable": 2})) == ["durable"]
    assert refused("acme://a", {}) == {}


@pytest.mark.parametrize("url", ["//", "//a:0", "//a:b", "//a:99999", "//[::1", "a"])
def test_urls_without_a_place(url: str) -> None:
    assert split(url) is None
