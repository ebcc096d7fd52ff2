"""The conformance kit: our worker and our master pass it, and it finds what others do wrong."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from jqmaster.cli.root import app
from jqmaster.conformance import worker_kit
from tests.support.master import master_on
from tests.support.server import StoreServer

ROOT = Path(__file__).parents[2]
KIT = [sys.executable, "-m", "jqmaster", "conformance"]


PUSHES, PULLS = 95, 50  # questions, at least
WORKERS = {
    "node push": ("node examples/node/worker.mjs", ["node"], PUSHES, 4),
    "node pull": ("node examples/node/worker.mjs", ["node"], PULLS, 4),
    "ruby push": ("ruby examples/ruby/worker.rb", ["ruby"], PUSHES, 4),
    # Each call of a shell is several processes.
    "shell pull": ("examples/shell/worker.sh", ["bash", "curl", "jq"], PULLS, 8),
}


def ask_worker(command: str, *, pull: bool, lease_s: float = 4) -> dict[str, dict[str, str]]:
    """What became of each question, by ID."""
    done = subprocess.run(
        [*KIT, "worker", "--json", "--lease", str(lease_s), "--run", command],
        cwd=ROOT,
        env={**os.environ, "PULL": "1" if pull else ""},
        capture_output=True,
        text=True,
        timeout=580,
        check=False,
    )
    found = {result["id"]: result for result in map(json.loads, done.stdout.splitlines())}
    assert found, done.stderr
    failed = [result for result in found.values() if result["outcome"] == "failed"]
    assert (done.returncode != 0) == bool(failed)
    return found


def all_passed(found: dict[str, dict[str, str]]) -> None:
    assert [result for result in found.values() if result["outcome"] != "passed"] == []


@pytest.mark.timeout(500)
@pytest.mark.req("J11", "M8")
@pytest.mark.parametrize("pull", [False, True], ids=["push", "pull"])
def test_our_worker_passes_the_kit(pull: bool) -> None:
    found = ask_worker(f"{sys.executable} -m examples.python.worker", pull=pull)
    all_passed(found)
    assert len(found) >= (PULLS if pull else PUSHES)


@pytest.mark.timeout(600)
@pytest.mark.req("J11", "M8")
@pytest.mark.parametrize("name", WORKERS)
def test_the_example_workers_pass_the_kit(name: str) -> None:
    command, tools, least, lease_s = WORKERS[name]
    for tool in tools:
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not on this machine")
    if (
        tools == ["ruby"]
        and subprocess.run(["ruby", "-rmsgpack", "-e", ""], check=False, capture_output=True).returncode
    ):
        pytest.skip("the gem msgpack is not on this machine (Debian: ruby-msgpack)")
    found = ask_worker(command, pull=name.endswith("pull"), lease_s=lease_s)
    all_passed(found)
    assert len(found) >= least


@pytest.mark.timeout(300)
@pytest.mark.req("J11")
async def test_our_master_passes_the_kit(store_server: StoreServer) -> None:
    async with master_on(store_server.url, lease_ms=6000, offer_ms=3000, worker_stale_s=5.0) as (master, _):
        process = await asyncio.create_subprocess_exec(
            *KIT, "master", master.server.url, "--json", stdout=asyncio.subprocess.PIPE, cwd=ROOT
        )
        printed, _ = await process.communicate()
    found = {result["id"]: result for result in map(json.loads, printed.splitlines())}
    all_passed(found)
    assert process.returncode == 0
    assert len(found) >= 40


def test_questions_have_stable_names_and_say_what_holds() -> None:
    listed = CliRunner().invoke(app, ["conformance", "worker", "--list"])
    assert listed.exit_code == 0
    lines = listed.stdout.splitlines()
    assert len(lines) == len(worker_kit.QUESTIONS) >= 100
    ids = [question.id for question in worker_kit.QUESTIONS]
    assert len(set(ids)) == len(ids)
    assert CliRunner().invoke(app, ["conformance", "master", "http://127.0.0.1:9", "--list"]).exit_code == 0


def test_nobody_to_ask_is_told() -> None:
    unreachable = CliRunner().invoke(app, ["conformance", "master", "http://127.0.0.1:9"])
    assert unreachable.exit_code == 5
    ended = CliRunner().invoke(app, ["conformance", "worker", "--run", f"{sys.executable} -c pass"])
    assert (ended.exit_code, "ended with 0 before it registered" in ended.stderr) == (5, True)
    assert CliRunner().invoke(app, ["conformance", "worker", "nonsense"]).exit_code == 2
