"""`dev/services`: what it remembers, whom it may end, and one real server through its whole life."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from servers import command, folders, ports, process
from servers.catalogue import SERVERS
from servers.kafka import METADATA_REQUEST
from servers.postgresql import PostgreSQL
from servers.process import Process
from servers.server import Server
from servers.state import Place, State
from tests import services

TREE = Path(__file__).resolve().parents[2]


@contextmanager
def _sleeper(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that has really begun (before that, the system knows no command line of it) and ends with the block."""
    program = "import time; print(flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == b"\n"
            yield child
        finally:
            child.kill()


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[bytes]]:
    """A process that no server of ours is."""
    with _sleeper() as child:
        yield child


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Path]:
    """A tree of its own with the script in it; whatever is started there is stopped."""
    shutil.copytree(TREE / "dev", tmp_path / "dev", ignore=shutil.ignore_patterns("__pycache__"))
    yield tmp_path
    assert _services(tmp_path, "down").returncode == 0


def _services(tree: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, str(tree / "dev" / "services"), *arguments]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


def _place(folder: Path, *processes: Process, client: int = 1, ready: bool = True) -> Place:
    return Place(folder, {"client": client}, list(processes), ready)


def _remembered(tree: Path, **places: Place) -> State:
    state = State(tree)
    state.places.update(places)
    state.save()
    return State(tree)


# --- processes


def test_a_running_process_is_recognised_by_its_start(stranger: subprocess.Popen[bytes]) -> None:
    ours = process.remember(stranger.pid)
    assert ours is not None
    assert process.is_running(ours)
    assert not process.is_running(Process(stranger.pid, "another start"))


def test_two_processes_never_share_an_identity(stranger: subprocess.Popen[bytes]) -> None:
    with _sleeper() as other:
        assert process.remember(other.pid) != process.remember(stranger.pid)


def test_a_zombie_counts_as_gone() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it has ended; nobody has asked for its code yet
        assert process.identity(child.pid) is None
    assert process.remember(child.pid) is None


@contextmanager
def _dying(folder: Path, for_s: float) -> Iterator[tuple[Process, int]]:
    """As a killed JVM for a moment: its first thread has ended, another one holds its port. Both are given."""
    program = """if True:
        import ctypes, socket, sys, threading, time
        server = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=time.sleep, args=[float(sys.argv[1])]).start()
        print(server.getsockname()[1], flush=True)
        ctypes.CDLL(None).pthread_exit(None)
    """
    log, command = folder / "log", [sys.executable, "-c", program, str(for_s)]
    with process.launch(command, folder=folder, log=log, env={}, user=None) as child:
        try:
            _wait_until(lambda: ") Z " in Path(f"/proc/{child.pid}/stat").read_text())
            ours = process.remember(child.pid)
            assert ours is not None
            yield ours, int(log.read_text())
        finally:
            child.kill()


def test_a_zombie_whose_threads_still_run_is_not_gone(tmp_path: Path) -> None:
    with _dying(tmp_path, for_s=60) as (ours, port):
        assert process.is_running(ours)
        assert not ports.is_free(port)
        assert process.stop(ours, gentle=signal.SIGKILL, patience_s=10) == "stopped"
        assert ports.is_free(port)


def test_a_server_that_is_dying_is_started_anew_at_its_port(tree: Path) -> None:
    folder = tree / ".services" / "nats"
    folder.mkdir(parents=True)
    with _dying(folder, for_s=2) as (ours, port):
        _remembered(tree, nats=_place(folder, ours, client=port))
        done = _services(tree, "up", "nats")
        assert done.returncode == 0, done.stderr
    place = State(tree).places["nats"]
    assert place.serves()
    assert place.ports["client"] == port


def test_a_stale_number_that_names_another_process_is_never_signalled(
    tree: Path, stranger: subprocess.Popen[bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    stale = Process(stranger.pid, "the start of a server that ended long ago")
    assert process.stop(stale, gentle=signal.SIGTERM, patience_s=0.1) == "was gone"
    _remembered(tree, redis=_place(tree, stale), nats=_place(tree, stale))

    assert command.main(["down"], tree) == 0
    assert stranger.poll() is None
    assert sorted(re.findall(r"(\w+) +was down", capsys.readouterr().out)) == ["nats", "redis"]  # they go in parallel
    assert State(tree).places["redis"].processes == []


def test_a_process_that_does_not_listen_is_killed(tmp_path: Path) -> None:
    program = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(60)"
    log = tmp_path / "log"
    with process.launch([sys.executable, "-c", program], folder=tmp_path, log=log, env={}, user=None) as child:
        ours = process.remember(child.pid)
        assert ours is not None
        _wait_until(lambda: log.read_bytes() == b"1\n")
        assert process.stop(ours, gentle=signal.SIGTERM, patience_s=0.2) == "killed"
        assert child.wait() == -signal.SIGKILL


def test_a_launched_process_leaves_our_session(tmp_path: Path) -> None:
    program = "import os; print(os.getsid(0) == os.getpid(), os.environ['WORD'], flush=True)"
    log = tmp_path / "log"
    with process.launch(
        [sys.executable, "-c", program], folder=tmp_path, log=log, env={"WORD": "w"}, user=None
    ) as child:
        assert child.wait() == 0
    assert log.read_text() == "True w\n"


def _wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


# --- ports


def test_a_port_that_somebody_listens_on_is_not_free() -> None:
    with socket.create_server((ports.HOST, 0)) as server:
        port = server.getsockname()[1]
        assert not ports.is_free(port)
    assert ports.is_free(port)


def test_promised_ports_and_used_ports_are_not_picked(monkeypatch: pytest.MonkeyPatch) -> None:
    port = ports.pick(())
    monkeypatch.setattr(ports, "FIRST", port)
    monkeypatch.setattr(ports, "LAST", port + 1)
    monkeypatch.setattr(ports, "is_free", lambda _port: True)
    assert {ports.pick({port + 1}) for _ in range(20)} == {port}
    monkeypatch.setattr(ports, "is_free", lambda candidate: candidate != port)
    assert {ports.pick(()) for _ in range(20)} == {port + 1}
    with pytest.raises(OSError, match="no free port"):
        ports.pick({port + 1})


# --- state


def test_what_is_saved_is_read_back(tmp_path: Path) -> None:
    place = _place(tmp_path / "redis", Process(7, "then"), client=4711)
    assert _remembered(tmp_path, redis=place).places == {"redis": place}
    assert State(tmp_path).taken_ports() == {4711}


def test_a_copy_of_a_tree_does_not_own_the_servers_of_the_original(tmp_path: Path) -> None:
    original, copy = tmp_path / "original", tmp_path / "copy"
    original.mkdir()
    state = _remembered(original, redis=_place(original))
    (copy / ".services").mkdir(parents=True)
    (copy / ".services" / "state.json").write_bytes(state.path.read_bytes())
    assert State(copy).places == {}


def test_a_torn_state_file_is_an_empty_one(tmp_path: Path) -> None:
    state = _remembered(tmp_path, redis=_place(tmp_path))
    state.path.write_text(state.path.read_text()[:20])
    assert State(tmp_path).places == {}


def test_urls_name_those_that_serve_and_no_others(
    tree: Path, stranger: subprocess.Popen[bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    alive = process.remember(stranger.pid)
    assert alive is not None
    gone = Process(stranger.pid, "earlier")
    _remembered(
        tree,
        postgresql=_place(tree, alive, client=1001),
        mariadb=_place(tree, alive, client=1002, ready=False),
        redis=_place(tree, gone, client=1003),
        nats=_place(tree, alive, gone, client=1004),
        kafka=_place(tree, alive, client=1005),
        rabbitmq=_place(tree),
    )
    expected = {"postgresql": "postgresql://postgres@127.0.0.1:1001/postgres", "kafka": "kafka://127.0.0.1:1005"}

    assert command.main(["urls", "--json"], tree) == 0
    assert json.loads(capsys.readouterr().out) == expected
    assert command.main(["urls", "kafka"], tree) == 0
    assert capsys.readouterr().out.split() == ["kafka", "kafka://127.0.0.1:1005"]
    State(tree).path.unlink()  # the processes it names are not servers of this tree: nothing to stop


def test_status_tells_up_starting_dead_and_down_apart(
    tree: Path, stranger: subprocess.Popen[bytes], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    alive = process.remember(stranger.pid)
    assert alive is not None
    _remembered(
        tree,
        postgresql=_place(tree, alive),
        mariadb=_place(tree, alive, ready=False),
        redis=_place(tree, Process(stranger.pid, "earlier")),
    )
    monkeypatch.setattr(SERVERS["nats"], "is_installed", lambda: True)
    monkeypatch.setattr(SERVERS["kafka"], "is_installed", lambda: False)

    assert command.main(["status", "postgresql", "mariadb", "redis", "nats", "kafka"], tree) == 0
    words = [line.split()[1] for line in capsys.readouterr().out.splitlines()]
    assert words == ["up", "starting", "dead", "down", "not"]
    State(tree).path.unlink()


def test_every_server_has_an_address_of_its_own_port(tmp_path: Path) -> None:
    assert tuple(SERVERS) == services.SERVERS
    for name, server in SERVERS.items():
        place = Place(tmp_path, {port: 5000 + index for index, port in enumerate(server.port_names)})
        assert server.name == name
        assert ":5000" in server.url(place)


def test_an_unknown_name_is_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        command.main(["up", "oracle"], tmp_path)
    assert stop.value.code == 2
    assert "there is no 'oracle'; there are postgresql, mariadb" in capsys.readouterr().err


# --- folders


def test_an_account_that_cannot_enter_the_tree_gets_a_folder_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[tuple[Path, str]] = []
    monkeypatch.setattr("servers.folders.shutil.chown", lambda folder, user, _group: given.append((folder, user)))
    closed = tmp_path / "closed" / ".services"
    closed.mkdir(parents=True)
    closed.parent.chmod(0o700)
    assert not folders.can_enter(closed)
    assert folders.choose("redis", closed, None) == closed / "redis"

    elsewhere = folders.choose("postgresql", closed, "somebody")
    try:
        assert not elsewhere.is_relative_to(closed)
        assert folders.can_enter(elsewhere.parent)
        assert given == [(elsewhere, "somebody")]
    finally:
        elsewhere.rmdir()


def test_a_lock_file_of_postgresql_that_names_a_stranger_is_forgotten(
    tmp_path: Path, stranger: subprocess.Popen[bytes]
) -> None:
    data = tmp_path / "data"
    (data / "global").mkdir(parents=True)
    (data / "global" / "pg_control").touch()
    lock = data / "postmaster.pid"

    lock.write_text(f"{stranger.pid}\n{data}\n")
    PostgreSQL().prepare(Place(tmp_path))
    assert not lock.exists()

    with _sleeper("-D", str(data)) as ours:
        lock.write_text(f"{ours.pid}\n{data}\n")
        PostgreSQL().prepare(Place(tmp_path))
        assert lock.exists()


# --- a real server


def test_a_server_lives_is_killed_and_comes_back_with_its_port(tree: Path) -> None:
    up = _services(tree, "up", "nats")
    assert up.returncode == 0, up.stderr
    first = State(tree).places["nats"]
    assert first.serves()
    assert f"nats://127.0.0.1:{first.ports['client']} " in up.stdout
    assert os.getsid(first.processes[0].pid) == first.processes[0].pid  # no terminal of ours can reach it

    assert _services(tree, "up", "nats").stdout.split()[-2:] == ["was", "up"]
    assert State(tree).places["nats"] == first

    os.kill(first.processes[0].pid, signal.SIGKILL)
    assert process.wait_gone(first.processes[0], 10)
    assert _services(tree, "up", "nats").returncode == 0
    second = State(tree).places["nats"]
    assert second.serves()
    assert (second.ports, second.folder) == (first.ports, first.folder)
    assert second.processes != first.processes

    assert "nats        stopped" in _services(tree, "down", "--delete").stdout
    assert not process.is_running(second.processes[0])
    assert not first.folder.exists()
    assert State(tree).places == {}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mariadb", "redis", "rabbitmq", "mqtt"])
def test_a_server_that_no_other_test_starts(name: str, tree: Path) -> None:
    """It starts, answers, and stops with all of its processes."""
    if not SERVERS[name].is_installed():
        services.absent(f"{name} is not installed: run `dev/services install {name}`")
    up = _services(tree, "up", name)
    assert up.returncode == 0, up.stderr
    place = State(tree).places[name]
    assert place.serves()
    assert SERVERS[name].answers(place)
    down = _services(tree, "down", "--delete")
    assert (down.returncode, down.stderr) == (0, "")
    assert not any(process.is_running(one) for one in place.processes)
    assert not any(_answers_at(port) for port in place.ports.values())
    assert not place.folder.exists()


def _answers_at(port: int) -> bool:
    try:
        socket.create_connection((ports.HOST, port), 1).close()
    except OSError:
        return False
    return True


def test_a_port_that_was_taken_meanwhile_is_replaced(tree: Path) -> None:
    with socket.create_server((ports.HOST, 0)) as occupant:
        taken = occupant.getsockname()[1]
        (tree / ".services" / "nats").mkdir(parents=True)
        _remembered(tree, nats=_place(tree / ".services" / "nats", client=taken))
        assert _services(tree, "up", "nats").returncode == 0
        place = State(tree).places["nats"]
        assert place.serves()
        assert place.ports["client"] != taken


def test_a_server_that_cannot_start_says_why_in_one_line(tree: Path) -> None:
    folder = tree / ".services" / "nats"
    folder.mkdir(parents=True)
    (folder / "data").write_text("a file where a folder should be")
    _remembered(tree, nats=_place(folder))

    up = _services(tree, "up", "nats")
    assert up.returncode == 1
    complaint = up.stderr.splitlines()
    assert len(complaint) == 1
    assert complaint[0].startswith("nats: ended while starting: ")
    assert "storage directory" in complaint[0]
    assert complaint[0].endswith(f"log: {folder / 'server.log'}")
    assert State(tree).places["nats"].processes == []


def test_what_speaks_another_protocol_is_not_taken_for_ready(tree: Path) -> None:
    """Each readiness check, against a server of another kind: an open port is not enough."""
    assert _services(tree, "up", "nats").returncode == 0
    port = State(tree).places["nats"].ports["client"]
    for server in SERVERS.values():
        assert _answers(server, Place(tree, dict.fromkeys(server.port_names, port))) is (server.name == "nats")


def _answers(server: Server, place: Place) -> bool:
    try:
        return server.answers(place)
    except OSError:
        return False


def test_the_metadata_request_is_what_kafka_defines() -> None:
    assert METADATA_REQUEST.hex(" ", 2) == "0003 0001 0000 0001 ffff 0000 0000"


# --- the tests' own fixtures


def test_an_address_from_the_environment_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FENCEPOST_TEST_NATS_URL", "nats://elsewhere:1")
    assert services.url_of("nats") == "nats://elsewhere:1"


def test_a_missing_server_skips_on_a_laptop_and_fails_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "running", dict)
    monkeypatch.delenv("FENCEPOST_TEST_NATS_URL", raising=False)
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="dev/services up nats"):
        services.url_of("nats")
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="FENCEPOST_TEST_NATS_URL"):
        services.url_of("nats")


def test_a_fresh_database_is_empty_and_a_new_one(fresh_database: str, fresh_name: str, postgresql_url: str) -> None:
    with psycopg.connect(fresh_database) as connection:
        assert connection.execute("SELECT current_database()").fetchone() == (fresh_name,)
        tables = connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone()
        assert tables == (0,)
    assert fresh_database != postgresql_url


def test_the_script_itself_runs_from_anywhere(tmp_path: Path) -> None:
    argv = [str(TREE / "dev" / "services"), "urls", "--json"]
    answer = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert isinstance(json.loads(answer.stdout), dict)
