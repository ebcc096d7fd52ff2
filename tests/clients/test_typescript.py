"""The TypeScript package: its own tests against a live master, and what users install."""

import asyncio
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients import typescript
from tests.clients.typescript import PACKAGE, run
from tests.support import real_time
from tests.support.master import PATIENT, master_on
from tests.support.namespaces import installed
from tests.support.pages import all_blocks
from tests.support.server import StoreServer, started

pytestmark = [
    typescript.NEEDED,
    real_time.PROCESSES,
    pytest.mark.timeout(600),
    pytest.mark.xdist_group("typescript"),
]


@pytest.fixture
def other() -> Iterator[StoreServer]:
    """Yield the second store of an installation."""
    server = StoreServer()
    with started(server):
        yield server


def own_tests(*names: str, **env: str) -> int:
    """Run test files of the package, and return how many tests they have. AssertionError with all that failed."""
    files = [str(PACKAGE / "build" / "test" / f"{name}.test.js") for name in names]
    done = subprocess.run(
        ["node", "--test", "--test-reporter=tap", *files],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    failed = re.findall(r"^ *not ok .*?^ *\.\.\.$", done.stdout, re.MULTILINE | re.DOTALL)
    told = "\n".join(failed) or done.stdout[-4000:] + done.stderr
    assert (done.returncode, failed) == (0, []), told
    counts = dict(re.findall(r"^# (tests|pass|skipped) (\d+)$", done.stdout, re.MULTILINE))
    assert (counts["pass"], counts["skipped"]) == (counts["tests"], "0"), done.stdout
    return int(counts["tests"])


@pytest.mark.req("S13", "J11", "M8")
async def test_its_own_tests_pass_against_a_live_master(store_server: StoreServer) -> None:
    await asyncio.to_thread(typescript.build)
    names = {path.name.removesuffix(".test.ts") for path in (PACKAGE / "test").glob("*.test.ts")}
    names -= {"faults", "several"}
    async with master_on(store_server.url, **PATIENT) as (master, _):
        count = await asyncio.to_thread(own_tests, *sorted(names), JQMASTER_URL=master.server.url)
    assert count > 40


@pytest.mark.req("S13", "M3")
async def test_faults_of_its_process_lose_no_job(store_server: StoreServer) -> None:
    """Processes end in the middle of a job, event loops are blocked, and the cluster module forks workers."""
    await asyncio.to_thread(typescript.build)
    async with master_on(
        store_server.url, **{**PATIENT, "lease_ms": 4_000, "offer_ms": 2_000, "worker_stale_s": 5.0}
    ) as (
        master,
        _,
    ):
        count = await asyncio.to_thread(own_tests, "faults", JQMASTER_URL=master.server.url)
    assert count == 5


@pytest.mark.req("S13", "D29")
async def test_one_worker_works_in_several_namespaces(
    store_server: StoreServer, other: StoreServer, tmp_path: Path
) -> None:
    await asyncio.to_thread(typescript.build)
    calm = {**PATIENT, "lease_ms": 6_000, "offer_ms": 2_000, "worker_stale_s": 5.0}
    async with installed(store_server, other, tmp_path, **calm) as installation:
        await installation.put("shop")
        await installation.put("mail", "b")
        await installation.until_served("shop", "mail")
        count = await asyncio.to_thread(own_tests, "several", JQMASTER_URL=installation.url)
    assert count == 8


def programs_of(page: str, language: str) -> dict[str, str]:
    """Return the blocks of a page in a language, by the file that the first line of each names."""
    found = [re.match(r"// ([\w.]+)\n", text) for one, text in all_blocks(page) if one == language]
    texts = [text for one, text in all_blocks(page) if one == language]
    assert all(found), "each block names its file"
    return {name[1]: text for name, text in zip(found, texts, strict=True) if name}


@pytest.mark.req("S13")
async def test_a_project_from_nothing_has_a_result_by_the_readme(
    store_server: StoreServer, tmp_path: Path
) -> None:
    """The package is packed and installed as from a registry, and the files of its README run."""
    await asyncio.to_thread(typescript.build)
    packed = run("npm", "pack", "--ignore-scripts", "--silent", "--pack-destination", str(tmp_path)).split()[
        -1
    ]
    (tmp_path / "package.json").write_text('{"private": true, "type": "module"}')
    run(
        "npm", "install", "--offline", "--install-links", "--ignore-scripts", "--no-audit", "--no-fund",
        str(tmp_path / packed),
        str(PACKAGE / "node_modules" / "@msgpack" / "msgpack"),
        cwd=tmp_path,
    )  # fmt: skip
    installed = tmp_path / "node_modules"
    assert sorted(path.name for path in installed.iterdir() if path.name[0] != ".") == [
        "@msgpack",
        "jqmaster-sdk",
    ]
    files = {
        path.relative_to(installed / "jqmaster-sdk").as_posix()
        for path in installed.rglob("*")
        if path.is_file() and "jqmaster-sdk" in path.parts
    }
    assert {
        "dist/index.js",
        "dist/index.d.ts",
        "dist/index.js.map",
        "src/index.ts",
        "LICENSE",
        "README.md",
    } <= files
    assert not [file for file in files if file.startswith(("test", "build", "node_modules", "examples"))]
    programs = programs_of("clients/typescript/README.md", "js")
    assert {"tasks.js", "worker.js", "push.js"} <= programs.keys()
    for name, text in programs.items():
        (tmp_path / name).write_text(text)
    async with master_on(store_server.url) as (master, _):
        worker = await asyncio.create_subprocess_exec(
            "node", "worker.js", cwd=tmp_path, env={**os.environ, "JQMASTER_URL": master.server.url}
        )
        try:
            told = await asyncio.to_thread(
                run, "node", "push.js", cwd=tmp_path, JQMASTER_URL=master.server.url
            )
        finally:
            worker.terminate()
            assert await worker.wait() == 0
    assert "width: 320" in told


@pytest.mark.req("S13")
async def test_the_programs_of_the_guide_compile_and_run(store_server: StoreServer) -> None:
    await asyncio.to_thread(typescript.build)
    # Below the package, whose name they import.
    folder = PACKAGE / "build" / "guide"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, text in programs_of("docs/typescript.md", "ts").items():
        (folder / name).write_text(text)
    (folder / "tsconfig.json").write_text(
        '{"extends": "../../tsconfig.base.json", "compilerOptions": {"composite": false}}'
    )
    await asyncio.to_thread(run, "node", str(PACKAGE / "node_modules/typescript/bin/tsc"), "-p", str(folder))
    run("node", "--test", "photos.test.js", cwd=folder)
    async with master_on(store_server.url) as (master, _):
        env = {**os.environ, "JQMASTER_URL": master.server.url}
        worker = await asyncio.create_subprocess_exec("node", "worker.js", cwd=folder, env=env)
        try:
            told = await asyncio.to_thread(run, "node", "push.js", cwd=folder, JQMASTER_URL=master.server.url)
        finally:
            worker.terminate()
            assert await worker.wait() == 0
    assert told.splitlines() == ["the photo is 320 wide", "3 jobs", "2", "album 7: 320 640"]
