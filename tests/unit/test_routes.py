"""The rules by which a message finds its broker and its topic there, and their mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from fencepost import app
from fencepost.config import Config, ConfigurationErrors, RouteConfig, load, masked, scrubber
from fencepost.errors import ConfigurationError, ParkError
from fencepost.message import Stored
from fencepost.routes import Destination, Hook, Router, Rule, unusable

ID = "018f2f6e-6c63-7cc4-8c1a-5f0f3ac01d2e"
ORDER = Stored(1, ID, "orders", "order-1", 1, "order.placed", b"{}", "application/json", {"tenant": "acme"}, 0)


def routed(router: Router, message: Stored = ORDER) -> tuple[str, str]:
    return router.broker_of(message), router.topic_of(message)


def test_without_a_rule_everything_goes_to_the_main_broker_as_it_is() -> None:
    assert Router().is_trivial
    assert routed(Router()) == ("main", "orders")


def test_the_first_rule_that_takes_the_topic_decides() -> None:
    router = Router([Rule("order*", "a"), Rule("*", "b", "all.{topic}")], brokers=("main", "a", "b"))
    assert not router.is_trivial
    assert routed(router) == ("a", "orders")
    assert routed(router, ORDER._replace(topic="stock")) == ("b", "all.stock")


@pytest.mark.parametrize(
    ("pattern", "topic", "taken"),
    [
        ("orders", "orders", True),
        ("orders", "orders.eu", False),
        ("orders.*", "orders.eu", True),
        ("orders.*", "ordersXeu", False),
        ("*.eu", "orders.eu", True),
        ("a*b*c", "a.b.c", True),
        ("a*b*c", "a.c.b", False),
        ("*", "x", True),
    ],
)
def test_patterns(pattern: str, topic: str, taken: bool) -> None:
    assert Rule(pattern).takes(topic) is taken


def test_a_topic_is_made_of_what_the_message_has() -> None:
    assert routed(Router([Rule("*", topic="{header.tenant}.{topic}.{type}.{key}")])) == (
        "main",
        "acme.orders.order.placed.order-1",
    )


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (ORDER._replace(headers=None), "needs its header.tenant"),
        (ORDER._replace(headers={"tenant": "a b"}), "gives the topic 'a b.orders'"),
        (ORDER._replace(headers={"tenant": "x" * 300}), "is not usable"),
    ],
)
def test_a_message_without_what_the_topic_needs_is_set_aside(message: Stored, words: str) -> None:
    router = Router([Rule("*", topic="{header.tenant}.{topic}")])
    assert router.broker_of(message) == "main"
    with pytest.raises(ParkError, match=words):
        router.topic_of(message)


@pytest.mark.parametrize(
    "template", ["{topic", "{nothing}", "}", "{topic}{", "a b", "{topic} ", "x" * 300, "{header.}"]
)
def test_templates_that_cannot_be(template: str) -> None:
    assert unusable(template)


@pytest.mark.parametrize("template", ["", "fixed", "{topic}", "{key}.{type}", "a.{header.x-y}", "{topic}/{key}"])
def test_templates_that_can_be(template: str) -> None:
    assert unusable(template) == ""


def hook(message: Stored) -> Destination | None:
    if message.topic == "broken":
        raise ValueError("no idea")
    if message.topic == "odd":
        return "main"  # type: ignore[return-value]
    if message.topic == "elsewhere":
        return Destination("nowhere")
    return Destination("a", "by.hook") if message.topic == "orders" else None


def test_a_function_comes_before_the_rules() -> None:
    router = Router([Rule("*", "b")], hook, ("main", "a", "b"))
    assert routed(router) == ("a", "by.hook")
    assert routed(router, ORDER._replace(topic="stock")) == ("b", "stock")


@pytest.mark.parametrize(
    ("topic", "words"),
    [("broken", "ValueError: no idea"), ("odd", "gave 'main'"), ("elsewhere", "brokers are a, b, main")],
)
def test_a_function_that_fails_sets_its_message_aside(topic: str, words: str) -> None:
    router = Router([], hook, ("main", "a", "b"))
    message = ORDER._replace(topic=topic)
    assert router.broker_of(message) == "main"
    with pytest.raises(ParkError, match=words):
        router.topic_of(message)


def test_whether_a_topic_goes_to_one_place() -> None:
    def together(template: str | None, asked: Hook | None = None) -> bool:
        return Router([Rule("*", topic=template)], asked).keeps_together(ORDER)

    assert together(None)
    assert together("all.{topic}")
    assert not together("{header.tenant}.{topic}")
    assert not together("{topic}.{key}")
    assert not together(None, hook)


# -- the configuration -------------------------------------------------------------------------------------------------

TOML = """\
[relay]
name = "shop"
[database]
url = "memory://routes"
[broker]
url = "memory://main"
[brokers.archive]
url = "memory://archive"
format = "plain"
message_bytes_max = 1000
[routes.first]
topics = "orders.*"
broker = "archive"
topic = "all.{topic}"
[routes.second]
topics = "*"
"""


def read(folder: Path, text: str = TOML, env: dict[str, str] | None = None) -> Config:
    file = folder / "fencepost.toml"
    file.write_text(text)
    return load(file, env or {})


def test_several_brokers_and_routes_are_read(tmp_path: Path) -> None:
    config = read(tmp_path)
    assert config.brokers["archive"].settings == {"message_bytes_max": 1000}
    assert (config.brokers["archive"].format, config.broker.format) == ("plain", None)
    assert list(config.routes) == ["first", "second"]
    assert config.routes["first"] == RouteConfig(topics="orders.*", broker="archive", topic="all.{topic}")
    main, archive = app.outlets(config)
    assert (main.lane.name, archive.lane.name) == ("shop.0", "shop--archive.0")
    assert main.takes is not None
    assert archive.takes is not None
    assert (main.takes(ORDER), archive.takes(ORDER)) == (True, False)
    eu = ORDER._replace(topic="orders.eu")
    assert (main.takes(eu), archive.takes(eu)) == (False, True)


def test_the_environment_says_them_too(tmp_path: Path) -> None:
    config = read(tmp_path, TOML, {"FENCEPOST_BROKERS__ARCHIVE__URL": "memory://other"})
    assert config.brokers["archive"].url == "memory://other"


def test_both_brokers_have_the_same_source(tmp_path: Path) -> None:
    sources = {name: each.source for name, each in app.by_broker(read(tmp_path)).items()}
    assert sources == {"main": "/shop", "archive": "/shop"}


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            'broker = "archive"',
            'broker = "archiv"',
            r"\[routes.first\] broker .*line 13.*no section \[brokers.archiv\].*archive",
        ),
        ('topic = "all.{topic}"', 'topic = "all.{topc}"', r"\[routes.first\] topic .*line 14.*a brace"),
        ('topics = "orders.*"', 'topics = "orders.?"', r"\[routes.first\] topics .*line 12"),
        ('topics = "orders.*"\n', "", r"\[routes.first\] topics is missing"),
        ('url = "memory://archive"\n', "", r"\[brokers.archive\] url is missing"),
        ("[brokers.archive]", "[brokers.Archive]", r"\[brokers.Archive\] .*write \[brokers.NAME\]"),
        ("[brokers.archive]", "[brokers.main]", r"\[brokers.main\] .*not main"),
        ("[brokers.archive]", "[broker.archive]", "archive"),
        ("[routes.first]", "[routs.first]", r"unknown section \[routs\].*did you mean 'routes'"),
        ('format = "plain"', 'fromat = "plain"', "no setting 'fromat'"),
        ('broker = "archive"\n', "", r"\[brokers.archive\] url .*line 8.*nothing is sent there"),
        ('name = "shop"', 'name = "shop"\nroute = "shop"', r"\[relay\] route .*line 3.*shop.routing:route"),
    ],
)
def test_mistakes_are_told_with_their_place(old: str, new: str, words: str, tmp_path: Path) -> None:
    assert old in TOML
    with pytest.raises(ConfigurationError, match=f"(?s){words}"):
        app.outlets(read(tmp_path, TOML.replace(old, new, 1)))


@pytest.mark.parametrize(
    ("route", "words"),
    [
        ("no.such.module:route", "no.such.module cannot be imported: ModuleNotFoundError"),
        ("broken_route:route", "broken_route cannot be imported: ZeroDivisionError: division by zero"),
        ("fencepost.words:route", "has no function route"),
    ],
)
def test_a_function_that_is_not_there(route: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "broken_route.py").write_text("1 / 0")
    config = read(tmp_path, TOML.replace('name = "shop"', f'name = "shop"\nroute = "{route}"'))
    with pytest.raises(ConfigurationError, match=words):
        app.outlets(config)


def test_the_function_of_a_configuration(tmp_path: Path) -> None:
    text = TOML.replace('name = "shop"', f'name = "shop"\nroute = "{__name__}:hook"').replace("archive", "a")
    main, other = app.outlets(read(tmp_path, text))
    assert main.takes is not None
    assert other.takes is not None
    assert (main.takes(ORDER), other.takes(ORDER)) == (False, True)


def test_no_secret_of_any_broker_is_shown(tmp_path: Path) -> None:
    config = read(
        tmp_path, TOML.replace("memory://archive", "nats://me:hunter22@h").replace("message_bytes_max = 1000", "")
    )
    assert "hunter22" not in str(masked(config))
    assert "***" in scrubber(config)("the password is hunter22")


def test_all_mistakes_come_at_once(tmp_path: Path) -> None:
    text = TOML.replace('broker = "archive"', 'broker = "x"').replace("{topic}", "{")
    with pytest.raises(ConfigurationErrors) as told:
        read(tmp_path, text)
    assert len(told.value.errors) == 3
