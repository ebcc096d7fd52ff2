"""The master's own Valkey: kept alive, one per directory, never repaired automatically."""

import asyncio
import contextlib
import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from jqmaster.embedded import EmbeddedValkey, supervisor
from jqmaster.embedded.directory import DataDirectory
from jqmaster.embedded.files import AppendOnlyFiles
from jqmaster.errors import DamagedError, DataDirInUseError, StoreUnavailableError, StoreUnfitError
from jqmaster.store.namespaces.disk_copy import RegistryCopy
from jqmaster.store.namespaces.namespaces import StoredNamespaces
from tests.support import real_time
from tests.support.embedded import connected, data_dir, running, servers_on
from tests.support.waiting import wait_until

__all__ = ["data_dir"]

pytestmark = [pytest.mark.system, real_time.PROCESSES]

# A master that holds the directory until killed, and says so on its standard output.
MASTER = """
import asyncio, sys
from pathlib import Path
from jqmaster.embedded import EmbeddedValkey
from jqmaster.errors import DataDirInUseError

async def main():
    embedded = EmbeddedValkey(Path(sys.argv[1]))
    try:
        await embedded.start()
    except DataDirInUseError:
        print("in_use", flush=True)
        return
    print(embedded.status().pid, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


def start_master(path: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen([sys.executable, "-c", MASTER, str(path)], stdout=subprocess.PIPE, text=True)


async def said_by(master: "subprocess.Popen[str]") -> str:
    assert master.stdout
    return (await asyncio.to_thread(master.stdout.readline)).strip()


def end(master: "subprocess.Popen[str]") -> None:
    master.kill()
    master.wait()
    assert master.stdout
    master.stdout.close()


@pytest.mark.req("M1")
async def test_data_outlives_an_orderly_restart_and_the_server_is_gone_in_between(data_dir: Path) -> None:
    async with running(data_dir) as embedded, connected(embedded) as client:
        await client.set("job", "kept")
        assert servers_on(data_dir) == [embedded.status().pid]
    assert servers_on(data_dir) == []
    assert embedded.status().state == "stopped"
    async with running(data_dir) as embedded, connected(embedded) as client:
        assert await client.get("job") == "kept"


@pytest.mark.req("M1", "D18")
async def test_the_server_promises_fsync_and_listens_to_nobody_else(data_dir: Path) -> None:
    async with running(data_dir) as embedded, connected(embedded) as client:
        config = await client.config_get("*")
        assert {
            name: config[name] for name in ("appendonly", "appendfsync", "maxmemory-policy", "save", "port")
        } == {
            "appendonly": "yes",
            "appendfsync": "always",
            "maxmemory-policy": "noeviction",
            "save": "",
            "port": "0",
        }
        assert stat.S_IMODE(data_dir.stat().st_mode) == 0o700
        assert stat.S_IMODE((data_dir / "valkey.sock").stat().st_mode) == 0o700
        assert stat.S_IMODE((data_dir / "password").stat().st_mode) == 0o600
        assert stat.S_IMODE((data_dir / "valkey.conf").stat().st_mode) == 0o600
        process = psutil.Process(embedded.status().pid)
        password = (data_dir / "password").read_text().strip()
        assert password not in " ".join(process.cmdline())
        # glibc before 2.39 splits the tunables in place, so the second one looks like a variable of its own.
        named = {name for name in process.environ() if not name.startswith("glibc.malloc.")}
        assert named <= {"LC_ALL", "GLIBC_TUNABLES"}
        assert os.getsid(process.pid) != os.getsid(0)
        anonymous: Any = Redis(
            unix_socket_path=str(data_dir / "valkey.sock"), protocol=2, retry=Retry(NoBackoff(), 0)
        )
        with pytest.raises(Exception, match=r"(?i)authentication|noauth"):
            await anonymous.ping()
        await anonymous.aclose()


@pytest.mark.req("M1")
async def test_a_killed_server_comes_back_with_its_data(data_dir: Path) -> None:
    async with running(data_dir) as embedded, connected(embedded) as client:
        await client.set("job", "kept")
        first = embedded.status().pid
        assert first
        os.kill(first, signal.SIGKILL)
        await wait_until(lambda: embedded.status().state == "running" and embedded.status().pid != first)
        assert embedded.status().restarts == 1
        assert await client.get("job") == "kept"
        assert servers_on(data_dir) == [embedded.status().pid]


@pytest.mark.req("M1", "D19")
async def test_the_server_of_a_killed_master_is_taken_over(data_dir: Path) -> None:
    master = start_master(data_dir)
    try:
        pid = int(await said_by(master))
    finally:
        end(master)
    assert servers_on(data_dir) == [pid]
    async with running(data_dir) as embedded, connected(embedded) as client:
        assert embedded.status().pid == pid
        await client.set("job", "kept")
        # The server is watched even though it is not our child.
        os.kill(pid, signal.SIGKILL)
        await wait_until(lambda: embedded.status().state == "running" and embedded.status().pid != pid)
        assert await client.get("job") == "kept"
    assert servers_on(data_dir) == []


async def test_a_surviving_server_that_does_not_answer_is_replaced(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "ADOPT_WITHIN_S", 0.3)
    monkeypatch.setattr(supervisor, "TERMINATE_WITHIN_S", 0.3)
    monkeypatch.setattr(supervisor, "SHUTDOWN_WITHIN_S", 0.3)
    monkeypatch.setattr(supervisor, "CALL_TIMEOUT_S", 0.3)
    master = start_master(data_dir)
    try:
        pid = int(await said_by(master))
    finally:
        end(master)
    os.kill(pid, signal.SIGSTOP)
    async with running(data_dir) as embedded:
        assert embedded.status().pid != pid
        assert servers_on(data_dir) == [embedded.status().pid]


async def test_a_surviving_server_with_another_configuration_is_replaced_in_good_order(
    data_dir: Path,
) -> None:
    master = start_master(data_dir)
    try:
        pid = int(await said_by(master))
    finally:
        end(master)
    config = data_dir / "valkey.conf"
    config.write_text(config.read_text() + "# as of an older release\n")
    async with running(data_dir) as embedded:
        assert embedded.status().pid != pid
    assert "bye bye" in (data_dir / "valkey.log").read_text()


@pytest.mark.req("M1")
async def test_a_surviving_server_whose_file_is_in_doubt_is_replaced_and_the_file_written_anew(
    data_dir: Path,
) -> None:
    master = start_master(data_dir)
    try:
        pid = int(await said_by(master))
    finally:
        end(master)
    before = AppendOnlyFiles(data_dir).names()
    DataDirectory(data_dir).doubt()
    async with running(data_dir) as embedded:
        assert embedded.status().pid != pid
        assert not before & AppendOnlyFiles(data_dir).names()


async def test_a_second_master_is_refused_with_the_directory_and_the_holder_named(data_dir: Path) -> None:
    async with running(data_dir) as first:
        second = EmbeddedValkey(data_dir)
        with pytest.raises(DataDirInUseError) as refused:
            await second.start()
        assert str(data_dir) in refused.value.detail
        assert str(os.getpid()) in refused.value.detail
        await second.stop()
        assert first.status().state == "running"
        assert servers_on(data_dir) == [first.status().pid]


async def test_one_of_many_masters_at_once_gets_the_directory_and_there_is_one_server(data_dir: Path) -> None:
    masters = [start_master(data_dir) for _ in range(6)]
    try:
        said = await asyncio.gather(*(said_by(master) for master in masters))
        assert sorted(word == "in_use" for word in said) == [False] + [True] * 5
        assert [str(pid) for pid in servers_on(data_dir)] == [word for word in said if word != "in_use"]
    finally:
        for master in masters:
            end(master)


@pytest.mark.req("M1")
async def test_masters_killed_at_any_moment_never_leave_two_servers(data_dir: Path) -> None:
    for round_ in range(6):
        master = start_master(data_dir)
        try:
            # Python itself takes about 0.3 s to get there. Later rounds kill ever further into the start.
            with contextlib.suppress(subprocess.TimeoutExpired):
                await asyncio.to_thread(master.wait, 0.3 + 0.05 * round_)
        finally:
            end(master)
        assert len(servers_on(data_dir)) <= 1
    async with running(data_dir) as embedded:
        assert servers_on(data_dir) == [embedded.status().pid]


@pytest.mark.req("M1")
async def test_damaged_data_is_reported_and_left_as_it_is(data_dir: Path) -> None:
    async with running(data_dir) as embedded, connected(embedded) as client:
        for number in range(100):
            await client.set(f"job:{number}", "x" * 50)
    file = data_dir / "appendonlydir" / "appendonly.aof.1.incr.aof"
    content = bytearray(file.read_bytes())
    content[content.find(b"*3\r\n", 2000)] = ord("Z")
    file.write_bytes(content)
    embedded = EmbeddedValkey(data_dir)
    with pytest.raises(DamagedError) as told:
        await embedded.start()
    assert file.read_bytes() == content
    assert "valkey-check-aof" in told.value.detail
    # The advice contains a working command.
    command = told.value.detail
    command = command[command.rindex("(cp") : command.rindex(" [")]
    fixed = subprocess.run(["bash", "-c", command], input="y\n", text=True, capture_output=True, check=False)
    assert fixed.returncode == 0, fixed.stdout + fixed.stderr
    assert file.with_name(f"{file.name}.whole").read_bytes() == content
    async with running(data_dir) as embedded, connected(embedded) as client:
        assert await client.exists("job:0") == 1


@pytest.mark.req("M1")
async def test_a_full_disk_is_told_and_the_server_returns_when_there_is_room(data_dir: Path) -> None:
    with small_disk(data_dir):
        async with running(data_dir) as embedded, connected(embedded) as client:
            await client.set("job", "kept")
            filler = data_dir / "filler"
            fill(filler)
            with contextlib.suppress(Exception):
                await client.set("more", os.urandom(200_000).hex())
            await wait_until(lambda: embedded.status().state == "disk_full")
            assert "full" in embedded.status().detail
            filler.unlink()
            await wait_until(lambda: embedded.status().state == "running", timeout_s=30)
            assert await client.get("job") == "kept"


async def test_a_start_on_a_full_disk_says_so(data_dir: Path) -> None:
    with small_disk(data_dir):
        async with running(data_dir):
            pass
        fill(data_dir / "filler")
        shutil.rmtree(data_dir / "appendonlydir")
        with pytest.raises(StoreUnavailableError, match="is full"):
            await EmbeddedValkey(data_dir).start()


@contextlib.contextmanager
def small_disk(path: Path) -> Iterator[None]:
    """Mount an 8 MiB file system at `path`. This needs root, as in a container or CI machine."""
    path.mkdir(mode=0o700)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m,mode=0700", "tmpfs", str(path)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode != 0:
        pytest.skip("cannot mount a small disk here")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)


def fill(file: Path) -> None:
    with contextlib.suppress(OSError), file.open("wb", buffering=0) as stream:
        while stream.write(b"\0" * 4096):
            pass


async def test_a_long_path_gets_a_short_socket_that_only_we_can_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    deep = tmp_path / ("d" * 60) / ("e" * 60) / "data with 'odd\" name\\ é"
    async with running(deep) as embedded, connected(embedded) as client:
        assert await client.ping()
        socket = Path(client.connection_pool.connection_kwargs["path"])
        assert len(os.fsencode(socket)) <= 107
        assert stat.S_IMODE(socket.parent.stat().st_mode) == 0o700
    socket.parent.chmod(0o755)
    try:
        with pytest.raises(StoreUnfitError, match="other users can use"):
            await EmbeddedValkey(deep).start()
    finally:
        shutil.rmtree(socket.parent)


async def test_a_directory_full_of_other_things_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("hello")
    tmp_path.chmod(0o755)
    with pytest.raises(StoreUnfitError, match="not empty"):
        await EmbeddedValkey(tmp_path).start()
    assert [entry.name for entry in tmp_path.iterdir()] == ["letter.txt"]
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755


async def test_a_directory_with_a_copy_of_the_registry_of_namespaces_is_used(data_dir: Path) -> None:
    copy = RegistryCopy(data_dir, "redis://elsewhere", "jq")
    copy.write(StoredNamespaces(1, {}))
    async with running(data_dir) as embedded:
        assert embedded.status().state == "running"
    assert copy.read() == StoredNamespaces(1, {})


async def test_a_binary_that_ends_at_once_is_a_start_error_and_frees_the_directory(data_dir: Path) -> None:
    with pytest.raises(StoreUnfitError, match=r"valkey\.log"):
        await EmbeddedValkey(data_dir, binary=Path("/bin/false")).start()
    async with running(data_dir) as embedded:
        assert embedded.status().state == "running"


async def test_the_log_is_bounded_at_start(data_dir: Path) -> None:
    async with running(data_dir):
        pass
    with (data_dir / "valkey.log").open("ab") as log:
        log.truncate(9 * 1024 * 1024)
    async with running(data_dir):
        assert (data_dir / "valkey.log").stat().st_size < 1024 * 1024
        assert (data_dir / "valkey.log.1").exists()
