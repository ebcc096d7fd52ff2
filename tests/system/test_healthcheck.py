"""`jqmaster healthcheck` is cheap, and right about masters that want certificates of their clients."""

import asyncio
import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from jqmaster.app import running_master
from jqmaster.cli.console import alive
from jqmaster.config import Settings
from tests.support import real_time
from tests.support.master import QUICK
from tests.support.server import StoreServer
from tests.system.test_tls import Authority

pytestmark = real_time.PROCESSES

# Modules that take longer to load than the whole check.
HEAVY = {
    "typer",
    "click",
    "rich",
    "pydantic",
    "httpx",
    "http",
    "email",
    "typing",
    "asyncio",
    "msgpack",
    "redis",
    "ssl",
}
LOADED = """
import json, os, sys
sys.argv = ["jqmaster", "healthcheck"]
from jqmaster.cli import main
try:
    main()
except SystemExit as end:
    print(json.dumps([end.code, sorted(sys.modules)]))
"""


def run(**environment: str) -> tuple[int, set[str]]:
    """Return the exit code, and the modules that the check loaded."""
    cleaned = {
        name: value for name, value in os.environ.items() if not name.startswith(("JQMASTER_", "COVERAGE_"))
    }
    done = subprocess.run(
        [sys.executable, "-c", LOADED], env=cleaned | environment, capture_output=True, text=True, check=True
    )
    code, modules = json.loads(done.stdout)
    return code, {name.partition(".")[0] for name in modules}


def test_it_loads_nothing_but_a_little_of_the_standard_library(tmp_path: Path) -> None:
    bare = subprocess.run(
        [sys.executable, "-c", "import json, sys; print(json.dumps(sorted(sys.modules)))"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    own = HEAVY - {name.partition(".")[0] for name in json.loads(bare.stdout)}
    file = tmp_path / "alive"
    file.touch()
    code, modules = run(JQMASTER_HEALTH_FILE=str(file))
    assert (code, modules & own, "socket" in modules) == (0, set(), False)
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=answer_once, args=(server,))
        thread.start()
        code, modules = run(JQMASTER_PORT=str(server.getsockname()[1]))
        thread.join()
    assert (code, modules & own) == (0, set())


def answer_once(server: socket.socket) -> None:
    connection, _ = server.accept()
    with connection:
        connection.recv(4096)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")


def test_ready_asks_for_more_than_a_sign_of_life(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bytes] = []

    def answer(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection:
            asked.append(connection.recv(4096).split(b" ")[1])
            connection.sendall(b"HTTP/1.1 503 Not ready\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("JQMASTER_PORT", str(server.getsockname()[1]))
        monkeypatch.delenv("JQMASTER_HEALTH_FILE", raising=False)
        thread = threading.Thread(target=answer, args=(server,))
        thread.start()
        assert alive.quick_exit_code(["--ready"]) == 5
        thread.join()
    assert asked == [b"/readyz"]


def test_a_file_of_settings_names_the_port(tmp_path: Path) -> None:
    config = tmp_path / "jqmaster.toml"
    with socket.create_server(("127.0.0.1", 0)) as server:
        config.write_text(f'host = "0.0.0.0"\nport = {server.getsockname()[1]}\n')
        thread = threading.Thread(target=answer_once, args=(server,))
        thread.start()
        assert run(JQMASTER_CONFIG=str(config))[0] == 0
        thread.join()
    assert run(JQMASTER_CONFIG=str(config))[0] == 5
    assert run(JQMASTER_CONFIG=str(tmp_path / "missing.toml"))[0] == 5


@pytest.mark.parametrize("has_certificate", [True, False])
async def test_a_master_that_asks_for_certificates_of_clients_is_alive(
    store_server: StoreServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_certificate: bool
) -> None:
    authority = Authority(tmp_path)
    files = authority.issue("master")
    own = {"calls_certfile": files.certfile, "calls_keyfile": files.keyfile} if has_certificate else {}
    tls: dict[str, Any] = {
        "tls_certfile": files.certfile, "tls_keyfile": files.keyfile, "tls_client_cafile": authority.cafile, **own,
    }  # fmt: skip
    settings = Settings(**QUICK, redis_url=store_server.url, shard="alive", tokens=["read:the-token"], **tls)
    for name, value in tls.items():
        monkeypatch.setenv(f"JQMASTER_{name.upper()}", str(value))
    async with running_master(settings) as master:
        monkeypatch.setenv("JQMASTER_PORT", str(master.server.port))
        await asyncio.to_thread(alive.check)
        if has_certificate:
            await asyncio.to_thread(alive.check, is_ready=True)
        else:
            # It is alive, but it has not said that it is ready.
            with pytest.raises(alive.NotAliveError):
                await asyncio.to_thread(alive.check, is_ready=True)
            # Another address is asked for an answer, not for a sign of life.
            with pytest.raises(alive.NotAliveError):
                await asyncio.to_thread(alive.check, f"https://127.0.0.1:{master.server.port}/healthz")
    with pytest.raises(alive.NotAliveError):
        await asyncio.to_thread(alive.check)


def test_a_process_that_is_stuck_is_not_alive(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("TLS_CERTFILE", "TLS_CLIENT_CAFILE"):
        monkeypatch.setenv(f"JQMASTER_{name}", str(tmp_path / "some.pem"))
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("JQMASTER_PORT", str(server.getsockname()[1]))
        with pytest.raises(alive.NotAliveError, match="timed out"):
            alive.check(timeout_s=0.2)
