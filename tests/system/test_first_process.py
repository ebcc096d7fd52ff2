"""`jqmaster` as the first process of a container; tests/sdk/worker/test_first_process.py has what that process does."""

import asyncio
import signal
import sys
from pathlib import Path

import psutil
import pytest

from tests.sdk.worker.test_first_process import NAMESPACE, has_namespaces
from tests.support import real_time
from tests.support.cli import clean_environment
from tests.support.processes import ROOT

pytestmark = [pytest.mark.system, real_time.PROCESSES]


@pytest.mark.req("M14")
@pytest.mark.skipif(not has_namespaces(), reason="no right to make PID namespaces")
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("serve", "--port", "0", "--data-dir", "{directory}/data"), b"web UI:"),
        # No master is there: it goes on trying.
        (
            ("worker", "tests.support.workers:worker", "--processes", "2", "--master", "http://127.0.0.1:9"),
            b"http://127.0.0.1:9",
        ),
    ],
    ids=["serve", "worker --processes"],
)
async def test_it_gives_way_to_an_init_of_its_own_and_ends_in_order(
    arguments: tuple[str, ...], says: bytes, tmp_path: Path
) -> None:
    process = await asyncio.create_subprocess_exec(
        *NAMESPACE, sys.executable, "-m", "jqmaster", *(one.format(directory=tmp_path) for one in arguments),
        cwd=ROOT,
        env=clean_environment(),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    assert process.stdout
    said: list[bytes] = []
    try:
        async with asyncio.timeout(60):
            async for line in process.stdout:
                said.append(line)
                if says in line:
                    break
        assert says in said[-1], said
        (first,) = psutil.Process(process.pid).children()
        assert any(part.endswith("init_process.py") for part in first.cmdline()), first.cmdline()
        first.send_signal(signal.SIGTERM)
        rest = await asyncio.wait_for(process.stdout.read(), 40)
        assert await process.wait() == 0, b"".join([*said, rest]).decode()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
