"""Faults at the start and at the end of `jqmaster serve` and its clients: each names its remedy."""

import asyncio
import contextlib
import os
import signal
import socket
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from jqmaster.app import running_master
from jqmaster.config import Settings
from tests.support import real_time
from tests.support.cli import jqmaster
from tests.support.master import QUICK
from tests.support.ports import free_port
from tests.support.replicas import replicated
from tests.support.server import StoreServer
from tests.system.test_cli import Running
from worker_sdk import RefusedError, SyncPusher

pytestmark = [pytest.mark.system, real_time.PROCESSES]


def test_no_token_is_made_for_an_address_that_this_machine_does_not_have(tmp_path: Path) -> None:
    ended = jqmaster("serve", "--host", "203.0.113.9", "--port", 0, "--data-dir", tmp_path / "data")
    assert ended.code == 4
    assert "--host 203.0.113.9: not an address of this machine" in ended.err
    assert "token" not in ended.out
    assert not (tmp_path / "data").exists()


def test_no_token_is_made_for_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("0.0.0.0", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ended = jqmaster("serve", "--host", "0.0.0.0", "--port", port, "--data-dir", tmp_path / "data")
    assert f"port {port} is in use" in ended.err
    assert "token" not in ended.out


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_a_data_directory_that_cannot_be_one_is_named(tmp_path: Path, host: str) -> None:
    (tmp_path / "file").write_text("")
    at = ("serve", "--host", host, "--port", 0, "--data-dir")
    ended = jqmaster(*at, tmp_path / "file")
    assert f"{tmp_path}/file: it is a file; name a directory with --data-dir" in ended.err
    ended = jqmaster(*at, "/proc/nothing")
    assert "cannot make the data directory /proc/nothing" in ended.err
    assert "name a directory that can be created" in ended.err
    assert "token" not in ended.out


def test_a_second_ctrl_c_ends_the_store_too(tmp_path: Path) -> None:
    running = Running(tmp_path, "serve", "--port", 0, "--data-dir", tmp_path / "data")
    running.said("serves on")
    pid = int((tmp_path / "data" / "valkey.pid").read_text())
    # A store that stands still keeps the master from ending after the first one.
    os.kill(pid, signal.SIGSTOP)
    try:
        deadline_s = time.monotonic() + 20
        while running.popen.poll() is None and time.monotonic() < deadline_s:
            with contextlib.suppress(ProcessLookupError):
                os.kill(running.popen.pid, signal.SIGINT)
            time.sleep(0.2)
        assert running.popen.wait(20) == 130
    finally:
        os.kill(pid, signal.SIGCONT)
    assert f"Its own Valkey (process {pid}) was told to end, too." in (tmp_path / "serve.err").read_text()
    deadline_s = time.monotonic() + 20
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline_s:
        time.sleep(0.05)
    assert not Path(f"/proc/{pid}").exists()


def test_a_predecessor_that_is_no_id_is_told_in_words(tmp_path: Path) -> None:
    running = Running(tmp_path, "serve", "--port", 0, "--data-dir", tmp_path / "data")
    try:
        line = running.said("serves on")
        url = next(word for word in line.split() if word.startswith("http://"))
        ended = jqmaster("enqueue", "next", "--after", "abc", JQMASTER_URL=url)
        assert "must be the ID of a job" in ended.err
        assert "pattern" not in ended.err
        with SyncPusher(f"{url}/api") as pusher, pytest.raises(RefusedError) as told:
            pusher.enqueue("a")
        assert f"no jqmaster at {url}/api; give http://host:port" in str(told.value)
    finally:
        assert running.end() == 0


def test_a_missing_or_wrong_token_is_met_with_where_to_put_it(tmp_path: Path) -> None:
    token = "admin:" + "s3cret" * 8
    running = Running(tmp_path, "serve", "--port", 0, "--data-dir", tmp_path / "data", JQMASTER_TOKENS=token)
    try:
        line = running.said("serves on")
        url = next(word for word in line.split() if word.startswith("http://"))
        for wrong in (None, "wrong" * 8):
            with SyncPusher(url, token=wrong) as pusher, pytest.raises(RefusedError) as told:
                pusher.enqueue("a")
            assert "set JQMASTER_TOKEN or token=" in str(told.value)
    finally:
        assert running.end() == 0


def test_each_fault_of_the_store_names_a_remedy(store_server: StoreServer) -> None:
    away = jqmaster("doctor", "--redis", f"redis://127.0.0.1:{free_port()}")
    assert "does the store run there, and is its address right?" in away.err


@contextlib.asynccontextmanager
async def answering(answer: bytes) -> AsyncIterator[str]:
    """Yield the address of a server that gives each command this answer."""

    async def answer_all(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while await reader.read(65536):
                writer.write(answer)
        writer.close()

    async with await asyncio.start_server(answer_all, "127.0.0.1", 0) as server:
        yield f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_every_command_at_a_store_that_asks_for_a_password_names_it_and_the_remedy(
    tmp_path: Path, store_server: StoreServer
) -> None:
    settings = Settings(**QUICK, redis_url=store_server.url, shard="asksforit")
    async with running_master(settings):
        variables: dict[str, Any] = {
            "JQMASTER_REDIS_URL": store_server.backup_url,
            "JQMASTER_SHARD": "asksforit",
        }
        for made in (("backup", tmp_path / "b"), ("export", tmp_path / "lines")):
            assert (await asyncio.to_thread(jqmaster, *made, **variables)).code == 0
    async with answering(b"-NOAUTH Authentication required.\r\n") as url:
        commands: list[tuple[object, ...]] = [
            ("doctor",),
            ("fsck",),
            ("fsck", "--repair"),
            ("backup", tmp_path / "new"),
            ("restore", tmp_path / "b"),
            ("export", tmp_path / "exported"),
            ("import", tmp_path / "lines"),
            ("serve", "--port", 0),
        ]
        for command in commands:
            ended = await asyncio.to_thread(
                jqmaster, *command, JQMASTER_REDIS_URL=url.replace("//", "//:wrong-one@")
            )
            assert ended.code == 5, (command, ended)
            assert "wrong-one" not in ended.err, ended
            assert url in ended.err, (command, ended)
            assert "set user and password in redis_url: redis://user:password@host:port" in ended.err, ended


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"-WRONGPASS invalid username-password pair or user is disabled.\r\n", "user or password is wrong"),
        (b"-NOPERM this user has no permissions to run the 'x' command\r\n", "permi"),
        (b"-LOADING Redis is loading the dataset in memory\r\n", "when it has loaded its data"),
        (b"-MOVED 5798 127.0.0.1:7002\r\n", "redis+cluster://"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "is it the address of a Redis or Valkey?"),
    ],
)
async def test_each_refusal_of_the_store_names_its_remedy(answer: bytes, words: str) -> None:
    async with answering(answer) as url:
        for command in ("doctor", "fsck"):
            ended = await asyncio.to_thread(jqmaster, command, JQMASTER_REDIS_URL=url)
            assert ended.code in (4, 5), ended
            assert url in ended.err, (command, ended)
            assert words in ended.err, (command, ended)


async def test_fsck_says_that_the_store_is_a_replica() -> None:
    async with replicated(1) as (primary, (replica,)):
        with Redis.from_url(primary.url) as store:
            store.set("{jq}:generation", "a")
            assert store.wait(1, 5_000) == 1
        checked = await asyncio.to_thread(jqmaster, "fsck", JQMASTER_REDIS_URL=replica.url)
        assert checked.code == 0
        assert "The address is that of a replica: its data may be behind." in checked.err
        checked = await asyncio.to_thread(jqmaster, "fsck", JQMASTER_REDIS_URL=primary.url)
        assert checked.err == ""
