"""docs/push_from_any_language.md: its programs run."""

import asyncio
import os
import re
import shutil
from pathlib import Path

import pytest

from tests.support import real_time
from tests.support.master import master_on
from tests.support.server import StoreServer
from worker_sdk import Worker

pytestmark = real_time.PROCESSES

ROOT = Path(__file__).parents[2]
PROGRAMS = dict(
    re.findall(
        r"```(sh|js|ruby|php)\n(.*?)```", (ROOT / "docs/push_from_any_language.md").read_text(), re.DOTALL
    )
)
RUNNERS = {
    "sh": ("bash", "push.sh"),
    "js": ("node", "push.mjs"),
    "ruby": ("ruby", "push.rb"),
    "php": ("php", "push.php"),
}


@pytest.mark.req("J11")
@pytest.mark.parametrize("language", RUNNERS)
async def test_the_program_pushes_and_reads_the_result(
    language: str, store_server: StoreServer, tmp_path: Path
) -> None:
    runner, file = RUNNERS[language]
    if shutil.which(runner) is None:
        pytest.skip(f"{runner} is not on this machine")
    (tmp_path / file).write_text(PROGRAMS[language])
    async with master_on(store_server.url) as (master, api):
        worker = Worker(master.server.url)

        @worker.handler("thumbnail.make")
        async def make(argument: dict[str, int]) -> dict[str, int]:
            return {"width": 320}

        async with worker.running():
            process = await asyncio.create_subprocess_exec(
                runner,
                file,
                cwd=tmp_path,
                env={**os.environ, "JQMASTER_URL": master.server.url, "no_proxy": "*"},
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            printed, errors = await process.communicate()
            assert process.returncode == 0, errors
            assert b"320" in printed or language == "php"
            counts = await api.counts()
            assert counts["ready"] + counts["running"] + counts["succeeded"] == 1
