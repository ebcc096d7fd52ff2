"""The conformance kit: our worker and our master pass it, and it finds the faults of others."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from typer.testing import CliRunner

from jqmaster.cli.root import app
from jqmaster.conformance import worker_kit
from tests.clients import typescript
from tests.support import long, real_time
from tests.support.master import master_on
from tests.support.server import StoreServer

pytestmark = real_time.PROCESSES

ROOT = Path(__file__).parents[2]
KIT = [sys.executable, "-m", "jqmaster", "conformance"]


PUSHES, PULLS = 95, 50  # minimum number of questions
QUICK = {"push": 75, "pull": 30}
OURS = f"{sys.executable} -m examples.python.worker"
# Command, required tools, minimum number of questions, seconds of a lease.
WORKERS = {
    "node push": ("node examples/node/worker.mjs", ["node"], PUSHES, 4),
    "node pull": ("node examples/node/worker.mjs", ["node"], PULLS, 4),
    "typescript push": ("node clients/typescript/conformance.mjs", ["node", "typescript"], PUSHES, 4),
    "typescript pull": ("node clients/typescript/conformance.mjs", ["node", "typescript"], PULLS, 4),
    "ruby push": ("ruby examples/ruby/worker.rb", ["ruby"], PUSHES, 4),
    # Each shell call takes several processes.
    "shell pull": ("examples/shell/worker.sh", ["bash", "curl", "jq"], PULLS, 8),
}
# `make test` asks each language once, and the SDK in both ways.
USUALLY_ASKED = {"our push", "our pull", "node push", "typescript pull", "ruby push", "shell pull"}
# A shell needs several processes for each question. `make conformance` asks it all of them.
SHELL_QUICK = tuple(
    f"--only={question}"
    for question in (
        "register", "pull.form", "offer.runs", "offer.value_text", "offer.value_nested", "offer.unknown_name",
        "offer.future_fields", "result.form", "result.failure", "result.final_failure", "result.canceled", "end",
    )
)  # fmt: skip


def ask_worker(
    command: str, *, pull: bool, lease_s: float = 4, options: tuple[str, ...] = ()
) -> dict[str, dict[str, str]]:
    """Return the verdict by question ID."""
    done = subprocess.run(
        [*KIT, "worker", "--json", "--lease", str(lease_s), *options, "--run", command],
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
    assert {name: result for name, result in found.items() if result["outcome"] != "passed"} == {}


def missing_tool(tools: list[str]) -> str | None:
    for tool in tools:
        if tool == "typescript":
            if missing := typescript.missing():
                return missing
            typescript.build()
        elif shutil.which(tool) is None:
            return tool
    if (
        "ruby" in tools
        and subprocess.run(["ruby", "-rmsgpack", "-e", ""], check=False, capture_output=True).returncode
    ):
        return "the gem msgpack (Debian: ruby-msgpack)"
    return None


# The kit mostly waits, above all for leases, so the workers of a test are asked at the same time.


# They take minutes and judge answers by the millisecond. `make conformance` asks every worker on an otherwise idle
# machine.
ASKS_WORKERS = pytest.mark.skipif(
    not os.environ.get("JQMASTER_CONFORMANCE"), reason="asked by `make conformance` (JQMASTER_CONFORMANCE=1)"
)


@ASKS_WORKERS
@pytest.mark.timeout(500)
@pytest.mark.req("J11", "M8")
def test_our_worker_passes_the_kit() -> None:
    with ThreadPoolExecutor() as pool:
        push, pull = pool.map(lambda pull: ask_worker(OURS, pull=pull), (False, True))
    all_passed(
        {f"push {name}": one for name, one in push.items()}
        | {f"pull {name}": one for name, one in pull.items()}
    )
    assert len(push) >= PUSHES
    assert len(pull) >= PULLS


@ASKS_WORKERS
@pytest.mark.timeout(600)
@pytest.mark.req("J11", "M8")
def test_the_example_workers_pass_the_kit() -> None:
    missing = {name: tool for name, (_, tools, _, _) in WORKERS.items() if (tool := missing_tool(tools))}
    asked = {name: worker for name, worker in WORKERS.items() if name not in missing}
    with ThreadPoolExecutor() as pool:
        answers = pool.map(
            lambda name: ask_worker(asked[name][0], pull=name.endswith("pull"), lease_s=asked[name][3]), asked
        )
        for (name, (_, _, least, _)), found in zip(asked.items(), answers, strict=True):
            all_passed({f"{name}: {question}": one for question, one in found.items()})
            assert len(found) >= least, name
    if missing:
        pytest.skip("not asked: " + "; ".join(f"{name}, without {tool}" for name, tool in missing.items()))


@pytest.mark.sized
@pytest.mark.timeout(300)
@pytest.mark.req("J11", "M8")
def test_every_worker_passes_the_quick_kit() -> None:
    """No lease ends during the test, whatever else the machine does."""
    workers = {"our push": OURS, "our pull": OURS, **{name: worker[0] for name, worker in WORKERS.items()}}
    missing = {name: tool for name, (_, tools, _, _) in WORKERS.items() if (tool := missing_tool(tools))}
    asked = {
        name: command
        for name, command in workers.items()
        if name not in missing and (long.IS_LONG or name in USUALLY_ASKED)
    }
    with ThreadPoolExecutor() as pool:
        answers = pool.map(
            lambda name: ask_worker(
                asked[name],
                pull=name.endswith("pull"),
                lease_s=60,
                options=("--quick", *(SHELL_QUICK if name.startswith("shell") else ())),
            ),
            asked,
        )
        for name, found in zip(asked, answers, strict=True):
            all_passed({f"{name}: {question}": one for question, one in found.items()})
            assert len(found) >= QUICK[name.split()[1]] - (20 if name.startswith("shell") else 0), name
    if missing:
        pytest.skip("not asked: " + "; ".join(f"{name}, without {tool}" for name, tool in missing.items()))


@pytest.mark.timeout(300)
@pytest.mark.req("J11", "D29")
def test_workers_of_several_namespaces_pass_the_quick_kit_in_one_while_another_is_away() -> None:
    """Their registered address names the namespace, whose calls alone they prove, sign and answer there."""
    workers = {"our push": OURS, "our pull": OURS}
    if missing_tool(["node", "typescript"]) is None:
        workers |= {f"typescript {way}": WORKERS[f"typescript {way}"][0] for way in QUICK}
    with ThreadPoolExecutor() as pool:
        answers = pool.map(
            lambda name: ask_worker(
                workers[name],
                pull=name.endswith("pull"),
                lease_s=60,
                options=("--quick", "--namespace", "shop"),
            ),
            workers,
        )
        for name, found in zip(workers, answers, strict=True):
            all_passed({f"{name}: {question}": one for question, one in found.items()})
            assert len(found) >= QUICK[name.split()[1]], name


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
    assert len(found) >= 42
    assert {"claim.leaving", "claim.leaving_loss", "claim.leaving_offer"} <= {*found}


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
