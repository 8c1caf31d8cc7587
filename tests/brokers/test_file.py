"""Files of JSON lines and standard output: whole lines, whoever else writes, rotates, fills the disk, stops to read."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import json
import os
import resource
import signal
import sqlite3
import subprocess
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from fencepost import plugins
from fencepost.brokers.file import broker, refused
from fencepost.brokers.file.address import Address
from fencepost.brokers.file.faults import from_system
from fencepost.brokers.file.patience import Patience
from fencepost.brokers.file.pipe import Pipe
from fencepost.brokers.file.settings import Settings
from fencepost.envelope import Format
from fencepost.errors import (
    AccessDenied,
    ConfigurationError,
    ConnectionLost,
    Contention,
    FixError,
    ParkError,
    RetryError,
    SchemaMissing,
    Unavailable,
)
from fencepost.outbox import Outbox
from fencepost.ports import BrokerOptions, Handoff, Lane, Term
from tests.brokers.rows import json_row, json_rows
from tests.cli.process import COMMAND, configuration, environment, make_tables, run


@asynccontextmanager
async def owner(
    url: str, *, form: Format | None = None, create: bool = True, **settings: object
) -> AsyncIterator[Handoff]:
    made = broker(BrokerOptions(url=url, source="/shop", settings=settings, form=form, create=create))
    await made.open()
    try:
        yield await made.take_over(Lane("shop"), Term("shop.0", "me", 1))
    finally:
        await made.close()


def events(file: Path) -> list[dict[str, Any]]:
    """The lines of a file; every one of them has to be JSON."""
    return [json.loads(line) for line in file.read_bytes().split(b"\n")[:-1]]


def ids(file: Path) -> list[str]:
    return [event["id"] for event in events(file)]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "all.jsonl"


def contents(file: Path) -> bytes:
    return file.read_bytes()


def size_of(file: Path) -> int:
    return file.stat().st_size


def left(file: Path, data: bytes) -> None:
    file.write_bytes(data)


def touched(file: Path) -> Path:
    file.touch()
    return file


# -- lines ---------------------------------------------------------------------------------------------------------


async def test_a_line_is_an_event_with_its_topic_and_headers(file: Path) -> None:
    batch = [
        json_row(1, headers={"tenant": "a", "traceparent": "00-1"}, payload=b'{\n  "large": 1e400\r\n}', version=3),
        json_row(2, "other", payload=None, headers={"tenant": "b"}),
        json_row(3, payload=b"\x00\xff", content_type="image/png", key=None, in_doubt=True),
    ]
    async with owner(f"file://{file}") as handoff:
        assert list((await handoff.publish(batch)).published) == batch
    one, gone, raw = events(file)
    assert (one["topic"], one["subject"], one["entityversion"], one["specversion"]) == ("orders", "key-1", "3", "1.0")
    assert json.loads(one["headers"]) == batch[0].headers
    assert contents(file).startswith(b'{"topic":"orders"')
    assert b'"data":{   "large": 1e400  }}\n' in contents(file)
    assert (gone["topic"], gone["id"], json.loads(gone["headers"])) == ("other", batch[1].id, {"tenant": "b"})
    assert not {"data", "data_base64"} & gone.keys()
    assert gone["datacontenttype"] == "application/json"
    assert (raw["data_base64"], raw["possiblerepeat"], "subject" in raw) == ("AP8=", "true", False)


@pytest.mark.parametrize("form", [Format.PLAIN, Format.DEBEZIUM, Format.CLOUDEVENTS_BINARY])
async def test_another_format_has_its_headers_in_the_line(form: Format, file: Path) -> None:
    batch = [json_row(1, version=3, in_doubt=True), json_row(2, payload=b"no JSON"), json_row(3, payload=None)]
    async with owner(f"file://{file}", form=form) as handoff:
        await handoff.publish(batch)
    one, raw, gone = events(file)
    prefix = "ce-" if form is Format.CLOUDEVENTS_BINARY else ""
    assert (one["topic"], one["key"], one["data"]) == ("orders", "key-1", {"n": 1})
    assert (one["headers"][f"{prefix}id"], one["headers"][f"{prefix}possiblerepeat"]) == (batch[0].id, "true")
    assert raw["data_base64"] == "bm8gSlNPTg=="
    assert not {"data", "data_base64"} & gone.keys()


async def test_each_topic_has_its_file_and_names_are_told_apart(tmp_path: Path) -> None:
    """E4"""
    topics = ["a.b", "a_b", "a/b", "A.b", "caf\u00e9", "..", "a%2Fb"]
    batch = [json_row(n, topic) for n, topic in enumerate(topics)]
    async with owner(f"file://{tmp_path}/new/{{topic}}.jsonl") as handoff:
        assert list((await handoff.publish(batch)).published) == batch
        too_long = json_row(9, "x" * 300)
        (failure,) = (await handoff.publish([too_long])).failed
        assert isinstance(failure.error, ParkError)
        assert failure.error.at_once
    found = {name.name for name in (tmp_path / "new").iterdir()}
    assert found == {
        "a.b.jsonl",
        "a_b.jsonl",
        "a%2Fb.jsonl",
        "A.b.jsonl",
        "caf%C3%A9.jsonl",
        "...jsonl",
        "a%252Fb.jsonl",
    }
    async with owner(f"file://{tmp_path}/{{topic}}/x") as handoff:
        (failure,) = (await handoff.publish([json_row(1, "..")])).failed
        assert "another folder" in str(failure.error)


async def test_a_line_that_is_too_long_fails_alone(file: Path) -> None:
    """E1: counted in bytes."""
    batch = [*json_rows(5), json_row(6, payload="\u20ac".encode() * 200), json_row(7)]
    async with owner(f"file://{file}", line_bytes_max=600) as handoff:
        outcome = await handoff.publish(batch)
    assert [f.message for f in outcome.failed] == [batch[5]]
    assert ids(file) == [m.id for m in batch if m is not batch[5]]


# -- the file ------------------------------------------------------------------------------------------------------


async def test_a_file_that_is_rotated_is_left_alone(file: Path) -> None:
    first, second, third = json_rows(3), json_rows(3, start=4), json_rows(3, start=7)
    async with owner(f"file://{file}") as handoff:
        await handoff.publish(first)
        os.rename(file, file.with_suffix(".1"))  # noqa: PTH104
        await handoff.publish(second)
        assert (ids(file.with_suffix(".1")), ids(file)) == ([m.id for m in first], [m.id for m in second])
        os.unlink(file)  # noqa: PTH108
        await handoff.publish(third)
        assert ids(file) == [m.id for m in third]


async def test_half_a_line_of_somebody_who_died_spoils_nothing(file: Path) -> None:
    """A8"""
    left(file, b'{"whole":1}\n{"specversion":"1.')
    async with owner(f"file://{file}") as handoff:
        await handoff.publish(batch := json_rows(2))
    whole, torn, *rest, end = contents(file).split(b"\n")
    assert (whole, torn, end) == (b'{"whole":1}', b'{"specversion":"1.', b"")
    assert [json.loads(line)["id"] for line in rest] == [m.id for m in batch]


@contextmanager
def limited(size: int) -> Iterator[None]:
    """No file of this process grows beyond ``size`` bytes: a stand-in for a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_what_does_not_fit_is_taken_back_whole(file: Path) -> None:
    async with owner(f"file://{file}") as handoff:
        await handoff.publish(first := json_rows(3))
        size = size_of(file)
        with limited(size + 700), pytest.raises(Unavailable, match="rotate the file"):
            await handoff.publish(json_rows(10, start=4))
        assert size_of(file) == size
        await handoff.publish(last := json_rows(3, start=20))
    assert ids(file) == [m.id for m in (*first, *last)]


async def test_a_file_in_trouble_does_not_keep_the_others_lines_back(tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").mkdir()
    good, bad = json_rows(3), json_rows(3, "bad", 4)
    async with owner(f"file://{tmp_path}/{{topic}}.jsonl") as handoff:
        outcome = await handoff.publish([*bad, *good])
        assert list(outcome.published) == good
        assert {(f.message.topic, f.whole_topic, type(f.error)) for f in outcome.failed} == {("bad", True, FixError)}


@pytest.mark.parametrize("kind", ["folder", "fifo"])
async def test_something_else_than_a_file(kind: str, file: Path) -> None:
    os.mkdir(file) if kind == "folder" else os.mkfifo(file)  # noqa: PTH102
    async with owner(f"file://{file}") as handoff:
        with pytest.raises(FixError, match="change the URL"):
            await handoff.publish(json_rows(1))


async def test_a_folder_that_may_not_be_created(tmp_path: Path) -> None:
    with pytest.raises(SchemaMissing, match="set create = true"):
        async with owner(f"file://{tmp_path}/none/x.jsonl", create=False):
            pass
    async with owner(f"file://{tmp_path}/{{topic}}/x.jsonl", create=False) as handoff:
        (failure,) = (await handoff.publish(json_rows(1))).failed
        assert isinstance(failure.error, SchemaMissing)


async def rehearsed(template: str, *, create: bool = True) -> None:
    made = broker(BrokerOptions(url=f"file://{template}", source="/shop", create=create))
    try:
        await made.rehearse(Lane("shop"))  # type: ignore[attr-defined]
    finally:
        await made.close()


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("/dev/null", "no regular file"),
        ("{folder}", "is a folder"),
        ("{folder}/file/x", "would have to be a folder"),
        ("{folder}/file/{{topic}}", "would have to be a folder"),
        pytest.param(
            "/proc/{{topic}}.jsonl",
            "takes no files",
            marks=pytest.mark.skipif(not Path("/proc/self/mountinfo").exists(), reason="no Linux"),
        ),
    ],
)
async def test_a_place_where_nothing_can_be_written_is_told_by_the_check(
    template: str, said: str, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FixError, match=said):
        await rehearsed(template.format(folder=tmp_path))


async def test_places_that_pass(tmp_path: Path) -> None:
    """Nothing is made there, and nothing asked of what depends on the topic."""
    (tmp_path / "all.jsonl").touch()
    for name in ("all.jsonl", "new.jsonl", "a/b/{topic}.jsonl", "{topic}/x"):
        await rehearsed(f"{tmp_path}/{name}")
    await rehearsed(f"{tmp_path}/{{topic}}/x", create=False)
    with pytest.raises(SchemaMissing, match="set create = true"):
        await rehearsed(f"{tmp_path}/a/{{topic}}/x", create=False)
    assert os.listdir(tmp_path) == ["all.jsonl"]  # noqa: PTH208 - a quick look between awaits


@pytest.mark.parametrize("name", ["closed", "all.jsonl", "{topic}.jsonl"])
async def test_missing_rights_are_told_by_the_check(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those of a process that may do everything: who is asked is the system."""
    (tmp_path / "all.jsonl").touch()
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(AccessDenied, match="right to write"):
        await rehearsed(f"{tmp_path}/{name}")


async def test_a_place_that_cannot_be_looked_at(tmp_path: Path) -> None:
    with pytest.raises(FixError, match="too long"):
        await rehearsed(f"{tmp_path}/{'x' * 300}")


async def test_a_locked_file_is_waited_for(file: Path) -> None:
    async with owner(f"file://{file}") as handoff:
        with touched(file).open("ab") as other:
            fcntl.flock(other, fcntl.LOCK_EX)
            began = time.monotonic()
            with pytest.raises(Contention, match="locked by another process"):
                await handoff.publish(json_rows(1))
            assert 0.8 < time.monotonic() - began < 4
            waiting = asyncio.create_task(handoff.publish(json_rows(1)))
            await asyncio.sleep(0.1)
            assert not waiting.done()
        await waiting
    assert len(ids(file)) == 1


async def test_lines_of_several_writers_do_not_mix(file: Path) -> None:
    async def write(number: int) -> None:
        async with owner(f"file://{file}", fsync=False) as handoff:
            for turn in range(5):
                await handoff.publish([json_row(number * 100 + turn * 10 + n, payload=b"x" * 5000) for n in range(10)])

    await asyncio.gather(*[write(number) for number in range(4)])
    assert len(set(ids(file))) == 200


@pytest.mark.parametrize("fsync", [True, False])
async def test_fsync(fsync: bool, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[bool] = []
    real = os.fsync

    def noted(descriptor: int) -> None:
        synced.append(os.path.samestat(os.fstat(descriptor), file.stat()))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    async with owner(f"file://{file}", fsync=fsync) as handoff:
        await handoff.publish(json_rows(3))
        assert synced == ([True, False] if fsync else [])  # the file, and the folder that is to name it
        await handoff.publish(json_rows(3, start=4))
        assert len(synced) == (3 if fsync else 0)


async def test_close_ends_a_waiting_publish(file: Path) -> None:
    async with owner(f"file://{file}") as handoff:
        with touched(file).open("ab") as other:
            fcntl.flock(other, fcntl.LOCK_EX)
            waiting = asyncio.create_task(handoff.publish(json_rows(1)))
            await asyncio.sleep(0.1)
            await handoff.close()
            with pytest.raises(ConnectionLost):
                await waiting
            await asyncio.sleep(0.1)
        await asyncio.sleep(0.1)
        assert ids(file) == []


# -- standard output -----------------------------------------------------------------------------------------------


def test_a_pipe_that_nobody_reads_is_left_in_time_and_gone_on_with() -> None:
    reading, writing = os.pipe()
    pipe, lines = Pipe(writing), b"".join(b'{"n":%d,"x":"%b"}\n' % (n, b"y" * 300) for n in range(1000))
    began = time.monotonic()
    count = pipe.write(lines, Patience(0.2, time.monotonic))
    assert 0 < count < 1000
    assert time.monotonic() - began < 2
    assert pipe.write(lines, Patience(0.05, time.monotonic)) == 0
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.extend(iter(lambda: os.read(reading, 65536), b"")))
    reader.start()
    assert pipe.write(lines, Patience(10, time.monotonic)) == 1000
    os.close(writing)
    reader.join()
    os.close(reading)
    whole, torn = [], 0
    for line in b"".join(got).split(b"\n")[:-1]:
        try:
            whole.append(json.loads(line)["n"])
        except ValueError:
            torn += 1
    assert whole == [*range(count), *range(1000)]
    assert torn <= 1


def test_a_pipe_whose_reader_has_gone() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with pytest.raises(BrokenPipeError) as caught:
        Pipe(writing).write(b"{}\n", Patience(1, time.monotonic))
    os.close(writing)
    assert type(from_system(caught.value, "x")) is FixError


@pytest.fixture
def piped(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A relay whose standard output is a pipe, and its log another one."""
    configuration(tmp_path, database="sqlite:///shop.db", broker="stdout:")
    make_tables(tmp_path)
    connection = sqlite3.connect(tmp_path / "shop.db")
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        outbox = Outbox()
        for n in range(2000):
            outbox.add(connection, "orders", {"n": n}, key=f"k{n % 500}")
    connection.close()
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        [*COMMAND, "relay"], cwd=tmp_path, env=environment(), stdout=pipe, stderr=pipe, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_a_relay_in_a_pipe(piped: subprocess.Popen[str]) -> None:
    """The log is elsewhere; a reader that stops is waited for, one that goes is told of; a signal ends it."""
    assert piped.stdout is not None
    assert piped.stderr is not None
    first = [json.loads(piped.stdout.readline()) for _ in range(20)]
    assert all(event["specversion"] == "1.0" for event in first)
    time.sleep(0.5)  # the pipe is full
    rest = [json.loads(piped.stdout.readline()) for _ in range(1500)]
    versions: dict[str, list[int]] = {}
    for event in (*first, *rest):
        versions.setdefault(event["subject"], []).append(int(event["entityversion"]))
    assert all(numbers == list(range(1, len(numbers) + 1)) for numbers in versions.values())
    piped.stdout.close()
    log = ""
    while "whoever read it has ended" not in log:
        line = piped.stderr.readline()
        assert line, log
        log += line
    assert "relay_started" in log
    piped.send_signal(signal.SIGTERM)
    assert piped.wait(20) == 0


# -- addresses, settings, errors -----------------------------------------------------------------------------------


@pytest.mark.parametrize("url", ["stdout:", "stdout://", "file:///x/{topic}.jsonl", "file://localhost/x"])
def test_the_plug_in_is_found_by_its_name(url: str) -> None:
    module = plugins.load("broker", plugins.name_of("broker", url))
    assert type(module.broker(BrokerOptions(url=url, source="/shop"))).__name__ == "FileBroker"


def test_a_path_is_decoded() -> None:
    assert Address.of("file:///a%20b%3F/x").path("t") == "/a b?/x"


@pytest.mark.parametrize(
    "url", ["file://relative/x", "file:///", "file:", "file:///x/", "file:///x?a", "file:///x#", "file:///{other}",
            "file:///x%00", "stdout:///x", "http://x/"],
)  # fmt: skip
def test_urls_of_no_file(url: str) -> None:
    with pytest.raises(ConfigurationError):
        Address.of(url)
    assert "url" in refused(url, {})


def test_settings() -> None:
    assert Settings.read({}) == Settings()
    assert Settings.read({"fsync": False, "line_bytes_max": 9}) == Settings(fsync=False, line_bytes_max=9)
    found = refused("stdout:", {"fsinc": 1, "fsync": 1, "line_bytes_max": 0})
    assert set(found) == {"fsinc", "fsync", "line_bytes_max"}
    assert "did you mean 'fsync'" in found["fsinc"].remedy


def test_exactly_once_is_refused_at_the_start(tmp_path: Path) -> None:
    configuration(tmp_path, database="sqlite:///x.db", broker="stdout:")
    toml = tmp_path / "fencepost.toml"
    toml.write_text(toml.read_text().replace('name = "clitest"', 'name = "clitest"\ndelivery = "exactly-once"'))
    make_tables(tmp_path)
    found = run("check", cwd=tmp_path)
    assert found.returncode == 1
    assert "standard output has no fence" in found.stdout + found.stderr


def test_every_error_of_the_system_has_a_family() -> None:
    for number in errno.errorcode:
        made = from_system(OSError(number, os.strerror(number)), "writing")
        assert isinstance(made, FixError | RetryError)
    assert isinstance(from_system(OSError(errno.ENOSPC, "full"), "writing"), Unavailable)
