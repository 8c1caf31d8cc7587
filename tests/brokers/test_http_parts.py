"""The parts of the HTTP broker: URLs, settings, routes, signatures, errors; TLS, a proxy, a real framework."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fencepost import app, config, errors, plugins
from fencepost.brokers.http import refused
from fencepost.brokers.http.answers import RETRY_AFTER_MAX_S, Trouble, judged
from fencepost.brokers.http.faults import LIBRARY, from_library
from fencepost.brokers.http.routes import Routes, shown, url_fault
from fencepost.brokers.http.settings import Settings
from fencepost.brokers.http.signature import key_of, signed
from fencepost.clock import SYSTEM_CLOCK
from fencepost.errors import ConfigurationError, FixError, ParkError, RetryError, Unavailable
from fencepost.ports import BrokerOptions
from tests.brokers.http_kit import HANG, consumer, owner
from tests.brokers.rows import json_row, json_rows
from tests.cli.process import configuration, make_tables, run
from tests.services import free_port

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


# -- URLs and settings ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("url", ["http://host/", "https://host:8443/hooks/{topic}?to={topic}"])
def test_the_plug_in_is_found_by_its_name(url: str) -> None:
    module = plugins.load("broker", plugins.name_of("broker", url))
    assert type(module.broker(BrokerOptions(url=url, source="/shop"))).__name__ == "HttpBroker"


@pytest.mark.parametrize(
    "url",
    ["http://", "http:///path", "ftp://host/", "http://host:port/", "http://host:0/", "http://{topic}.host/",
     "http://host/{other}", "http://host/}", "http://host/#part", "http://me:se/cret@host/", "http://h\u00f6st/",
     "http://host/a b", "http://[::1/"],
)  # fmt: skip
def test_urls_that_cannot_be_called(url: str) -> None:
    fault = url_fault(url)
    assert fault is not None
    assert fault.remedy
    assert "cret" not in str(fault)


@pytest.mark.parametrize(
    "url",
    ["hooks.example/services/T0/hush", "http://127.0.0.1:99999/services/hush", "http://[::1:80/services/hush",
     "http://host:hush/", "ftp://host/hush", "http://host/hush it", "http://me:4711/hush@host/", "http://me:4711?hush@host/",
     "http://me:4711#hush@host/", "http://me:pa@4711/hush@host/", "http://host/hush#hush", "http://host/hush/{x}"],
)  # fmt: skip
def test_nothing_of_a_url_that_cannot_be_called_is_repeated(url: str) -> None:
    for given in ({"targets.a": url}, {"proxy": url}):
        (error,) = refused("http://host/", given).values()
        assert "hush" not in str(error)
        assert "4711" not in str(error)
    (error,) = refused(url, {}).values()
    assert "hush" not in str(error)


def test_settings_have_defaults_and_are_read() -> None:
    assert Settings.read({}) == Settings()
    found = Settings.read(
        {"targets.a.*": "http://a/", "connections": 2, "signing_secrets": SECRET, "bearer_token.a": "t"}
    )
    assert (found.targets, found.connections, found.bearer_token) == ({"a.*": "http://a/"}, 2, {"a": "t"})
    assert found.signing_secrets == {"*": (key_of(SECRET),)}
    assert "Mf" not in repr(found)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [("conections", 1, "did you mean 'connections'?"), ("connections", 0, "above 0"), ("publish_s", True, "seconds"),
     ("targets", "http://x", "table"), ("targets.a", "ftp://x", "is not a URL"), ("targets.a", True, "a text"),
     ("signing_secrets", "hush-hush", "not base64"), ("signing_secrets", "aGk=", "2 bytes"),
     ("signing_secrets", [], "list"),
     ("bearer_token", "a b", "blanks"), ("proxy", "host:3128", "http://host:3128"), ("tls_cert", "x", "together"),
     ("tls_ca", "/no/such", "there is no file")],
)  # fmt: skip
def test_settings_that_cannot_be_meant(name: str, value: object, said: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Settings.read({name: value})
    assert said in str(caught.value)
    assert "hush" not in str(caught.value)


def test_mistakes_are_told_together_with_their_lines(tmp_path: Path) -> None:
    more = 'conections = 3\nsigning_secrets = "hush-hush"\n[broker.targets]\n"a.*" = "ftp://x"\n'
    configuration(tmp_path, database="sqlite:///x.db", broker="http://host/{tropic}", more=more)
    found = run("check", cwd=tmp_path)
    assert found.returncode == 2
    for said in (
        "line 8",
        "did you mean 'connections'",
        "line 9",
        "line 10",
        "line 12",
        "a brace where it means nothing",
    ):
        assert said in found.stderr
    assert "hush" not in found.stderr


def test_a_pem_file_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("no certificate")
    with pytest.raises(ConfigurationError, match=r"tls_ca = .*ca\.pem. cannot be used"):
        plugins.load("broker", "http").broker(
            BrokerOptions(url="http://x/", source="/s", settings={"tls_ca": str(tmp_path / "ca.pem")})
        )
    assert refused("http://x/", {}) == {}


def test_exactly_once_is_refused_at_the_start(tmp_path: Path) -> None:
    configuration(tmp_path, database="sqlite:///x.db", broker="http://127.0.0.1:9/")
    toml = tmp_path / "fencepost.toml"
    toml.write_text(toml.read_text().replace('name = "clitest"', 'name = "clitest"\ndelivery = "exactly-once"'))
    make_tables(tmp_path)
    found = run("relay", cwd=tmp_path)
    assert found.returncode == 2
    assert 'set delivery = "at-least-once"' in found.stderr


def test_a_batch_ends_before_the_relay_would_cut_it_off() -> None:
    def within(timeout_s: float | None, **settings: object) -> float:
        options = BrokerOptions(url="http://x/", source="/s", settings=settings, publish_timeout_s=timeout_s)
        found: float = plugins.load("broker", "http").broker(options)._publish_s
        return found

    assert (within(None), within(2.0), within(8.0), within(8.0, publish_s=7.0)) == (1.5, 1.5, 6.0, 7.0)
    with pytest.raises(ConfigurationError, match="ttl_s higher"):
        within(2.0, publish_s=2.0)
    made = config.made(
        {
            "relay": {"name": "s"},
            "database": {"url": "sqlite:///x"},
            "broker": {"url": "http://h/"},
            "lease": {"ttl_s": 1.0},
        },
        origin="the test",
    )
    assert app.broker(made)._publish_s == pytest.approx(0.3)  # type: ignore[attr-defined]


def test_secrets_of_settings_are_not_told() -> None:
    made = config.made(
        {
            "relay": {"name": "shop"},
            "database": {"url": "sqlite:///x.db"},
            "broker": {"url": "http://h/", "signing_secrets": [SECRET], "proxy": "http://u:hush-hush@proxy:1"},
        },
        origin="the test",
    )
    scrub = config.scrubber(made)
    assert scrub(f"{SECRET} and hush-hush") == "*** and ***"
    assert "hush" not in str(config.masked(made))


# -- routes --------------------------------------------------------------------------------------------------------


def test_the_name_comes_first_then_the_pattern_with_the_most_letters() -> None:
    targets = {"*.x": "http://dotx/", "a.*": "http://a/", "a.b.*": "http://ab/", "a.b.c": "http://abc/{topic}"}
    routes = Routes("http://rest/{topic}", targets)
    topics = {"a.b.c": "http://abc/a.b.c", "a.b.d": "http://ab/", "a.q": "http://a/", "q.x": "http://dotx/"}
    assert {topic: routes.url_of(topic) for topic in topics} == topics
    assert routes.url_of("a/../b") == "http://rest/a%2F..%2Fb"
    assert routes.fixed == ["http://a/", "http://ab/", "http://dotx/"]
    assert not routes.is_one
    assert Routes("http://one/", {}).is_one


@pytest.mark.parametrize("topic", ["..", ".", "x" * 9000, "\ud800"])
def test_topics_that_cannot_be_a_part_of_a_url(topic: str) -> None:
    with pytest.raises(ParkError, match="cannot be a part"):
        Routes("http://rest/{topic}", {}).url_of(topic)


def test_what_is_shown_of_a_target() -> None:
    assert shown("https://me:secret@host:1/T0/secret?sig=secret") == "https://host:1"


# -- signatures, answers, errors -----------------------------------------------------------------------------------


def test_the_signature_of_the_standards_own_example() -> None:
    made = signed("msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}', [key_of(SECRET)])
    assert dict(made)[b"webhook-signature"] == b"v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_every_status_has_a_family() -> None:
    for status in range(200, 600):
        found = judged(status, None, "http://host", SYSTEM_CLOCK.now())
        assert (found is None) is (status < 300)
        error = found.error if isinstance(found, Trouble) else found
        assert error is None or str(status) in str(error)
        if status >= 500 and status not in (501, 505, 511):
            assert isinstance(error, Unavailable)


@pytest.mark.parametrize(
    ("text", "pause_s"),
    [(None, 0.0), ("7", 7.0), ("99999999999999", RETRY_AFTER_MAX_S), ("soon", 0.0), ("-1", 0.0), ("", 0.0),
     ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0), ("Wed, 21 Oct 2099 07:28:00 -0000", RETRY_AFTER_MAX_S)],
)  # fmt: skip
def test_retry_after(text: str | None, pause_s: float) -> None:
    found = judged(503, text, "http://host", SYSTEM_CLOCK.now())
    assert isinstance(found, Trouble)
    assert (found.pause_s, found.busy) == (pause_s, True)


def library_errors() -> list[type[Exception]]:
    found = [kind for _, kind in inspect.getmembers(httpx, inspect.isclass) if issubclass(kind, Exception)]
    assert len(found) > 20
    return found


@pytest.mark.parametrize("kind", library_errors(), ids=lambda kind: kind.__name__)
def test_every_error_of_the_library_is_caught_and_has_a_family(kind: type[Any]) -> None:
    assert issubclass(kind, LIBRARY)
    request = httpx.Request("POST", "http://x")
    given: dict[str, dict[str, Any]] = {"HTTPStatusError": {"request": request, "response": httpx.Response(500)}}
    needs_text = kind not in (httpx.StreamConsumed, httpx.StreamClosed, httpx.ResponseNotRead, httpx.RequestNotRead)
    error = kind(*(["went wrong"] if needs_text else []), **given.get(kind.__name__, {}))
    made = from_library(error, "sending")
    assert isinstance(made, errors.FixError | errors.RetryError | errors.ParkError)
    assert str(made).startswith("sending: ")


# -- TLS, a proxy, a framework -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A certificate for localhost that signs itself, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    cert, key = str(folder / "cert.pem"), str(folder / "key.pem")
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "2",
    ]
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", cert]
    subprocess.run([*command, *names], check=True, capture_output=True)
    return cert, key


@asynccontextmanager
async def application(**more: Any) -> AsyncIterator[tuple[int, list[tuple[dict[str, str], bytes]]]]:
    """A Starlette application on uvicorn, as a consumer would write it; its port, and what it got."""
    got: list[tuple[dict[str, str], bytes]] = []

    async def hook(request: Request) -> Response:
        body = await request.body()
        if len(body) > 100_000:
            return Response("too large", 413)
        got.append((dict(request.headers), body))
        return Response("thanks", 202)

    port = free_port()
    app = Starlette(routes=[Route("/hooks/{topic}", hook, methods=["POST"])])
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_config=None, lifespan="off", **more))
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    try:
        yield port, got
    finally:
        server.should_exit = True
        await serving


async def test_a_framework_s_server_takes_what_is_sent() -> None:
    """E1: what is too large for it fails alone."""
    large, accents = json_row(30, payload=bytes(200_000)), json_row(31, "a/b", headers={"accents": "h\u00e9llo"})
    batch = [*json_rows(20), large, accents]
    async with application() as (port, got), owner(f"http://127.0.0.1:{port}/hooks/{{topic}}") as handoff:
        outcome = await handoff.publish(batch[:21])
        assert list(outcome.published) == batch[:20]
        assert [(f.message, "413" in str(f.error)) for f in outcome.failed] == [(batch[20], True)]
        assert sorted(headers["ce-id"] for headers, _ in got) == sorted(m.id for m in batch[:20])
        outcome = await handoff.publish(batch[21:])  # "a/b" has no route there: the framework decodes %2F
        assert [(f.whole_topic, type(f.error)) for f in outcome.failed] == [(True, FixError)]


async def test_tls(certificate: tuple[str, str]) -> None:
    cert, key = certificate
    async with application(ssl_certfile=cert, ssl_keyfile=key) as (port, got):
        url = f"https://localhost:{port}/hooks/orders"
        async with owner(url, tls_ca=cert, publish_s=10.0) as handoff:
            assert len((await handoff.publish(json_rows(2))).published) == 2
        async with owner(url, publish_s=10.0) as handoff:
            with pytest.raises(FixError, match="check tls_ca"):
                await handoff.publish(json_rows(1))
        async with owner(url.replace("https", "http")) as handoff:
            with pytest.raises(RetryError):
                await handoff.publish(json_rows(1))
        assert len(got) == 2
    async with consumer() as plain, owner(plain.url.replace("http", "https"), publish_s=0.5) as handoff:
        with pytest.raises((FixError, RetryError)):
            await handoff.publish(json_rows(1))


async def test_a_proxy_is_asked_for_the_target() -> None:
    async with consumer() as proxy, owner("http://nowhere.invalid/x", proxy=proxy.url) as handoff:
        assert len((await handoff.publish(json_rows(1))).published) == 1
        assert proxy.taken[0].target == "http://nowhere.invalid/x"


async def test_nothing_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    async with consumer() as target, owner(target.url) as handoff:
        assert len((await handoff.publish(json_rows(1))).published) == 1


async def test_targets_that_are_not_used_any_more_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["fencepost.brokers.http.broker"], "_IDLE_S", 0.05)
    async with consumer() as target:
        module = plugins.load("broker", "http")
        made = module.broker(BrokerOptions(url=f"{target.url}/{{topic}}", source="/s"))
        for n in range(4):
            await made.sending([json_row(1, f"t{n}")])
            await asyncio.sleep(0.06)
        assert len(made._targets) == 1
        target.says = lambda _: 500
        await made.sending([json_row(2, "down")])
        await asyncio.sleep(0.06)
        await made.sending([json_row(3, "other")])
        assert f"{target.url}/down" in made._targets  # what is known of it would be missed
        await made.close()


async def test_a_message_that_hangs_does_not_keep_the_others_back() -> None:
    batch = json_rows(5)
    ill = batch[1].id
    async with consumer(lambda r: HANG if r.id == ill else 204) as target, owner(target.url, publish_s=0.3) as handoff:
        outcome = await handoff.publish(batch)
        assert list(outcome.published) == [batch[0], *batch[2:]]
        (failure,) = outcome.failed
        assert (failure.message, failure.whole_topic) == (batch[1], False)
        assert isinstance(failure.error, ParkError)
