"""The master's own Valkey in a directory of a test."""

import contextlib
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from redis.asyncio import Redis

from jqmaster.embedded import EmbeddedValkey


@pytest.fixture
def data_dir() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="jq-", dir="/tmp")) / "data"
    yield path
    for pid in servers_on(path):
        os.kill(pid, signal.SIGKILL)
    shutil.rmtree(path.parent, ignore_errors=True)


def servers_on(path: Path) -> list[int]:
    """Find live servers by what they do, not by what we think we started."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            alive = process.status() != psutil.STATUS_ZOMBIE
            if alive and "valkey" in process.exe() and process.cwd() == str(path):
                found.append(process.pid)
    return found


@contextlib.asynccontextmanager
async def running(path: Path, **options: Any) -> AsyncIterator[EmbeddedValkey]:
    embedded = EmbeddedValkey(path, **options)
    await embedded.start()
    try:
        yield embedded
    finally:
        await embedded.stop()


@contextlib.asynccontextmanager
async def connected(embedded: EmbeddedValkey) -> AsyncIterator[Any]:
    client: Any = Redis.from_url(embedded.url, decode_responses=True)
    try:
        yield client
    finally:
        await client.aclose()
