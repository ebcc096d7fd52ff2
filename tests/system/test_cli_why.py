"""`jqmaster why` as the person on call uses it: real processes against a real master."""

import asyncio
import json
import re

import pytest

from jqmaster.domain.ids import new_id
from tests.support import real_time
from tests.support.cli import jqmaster
from tests.support.master import Api
from tests.support.scripted_worker import worker_at

pytestmark = [pytest.mark.system, pytest.mark.req("J13"), real_time.PROCESSES]


async def why(api: Api, *arguments: str) -> tuple[int, str, str]:
    """Return the exit code, output and errors."""
    done = await asyncio.to_thread(jqmaster, "why", *arguments, JQMASTER_URL=str(api.http.base_url))
    return done.code, done.out, done.err


async def test_each_verdict_is_a_line_and_the_constraints_a_table(api: Api) -> None:
    matcher = {"field": "name", "op": "eq", "value": "work"}
    for name, limits in (
        ("per-host", {"key": "argument.host", "concurrency": 1}),
        ("steady", {"rate": {"limit": 50, "period_s": 60}}),
        ("tried-out", {"paused": True, "mode": "shadow"}),
    ):
        status, _ = await api.call("PUT", f"/api/constraints/{name}", {"matcher": matcher, **limits})
        assert status == 201
    async with worker_at(api) as worker:
        holder = await api.enqueue("work", {"host": "example.org"})
        await api.until_state(holder, "running")
        blocked = await api.enqueue("work", {"host": "example.org"})
        code, out, err = await why(api, blocked)
        assert (code, err) == (0, "")
        first, verdict, empty, head, *rows = out.splitlines()
        assert first.startswith(f"{blocked} is ready (as of 20")
        assert verdict.startswith(
            f"- Waits for constraint per-host (argument.host = example.org): 1 of 1 slots taken: job {holder} on "
            f"worker {worker.id} for "
        )
        assert empty == ""
        columns = ["CONSTRAINT", "KEY", "VALUE", "NOW", "RUNNING", "STARTS", "WAITING", "OPENS"]
        assert head.split() == columns
        assert [row.split() for row in rows] == [
            ["per-host", "argument.host", "example.org", "concurrency", "1", "of", "1", "1"],
            ["steady", "passes", "1", "of", "50", "in", "60", "s", "1"],
            ["tried-out", "paused", "(shadow)", "1"],
        ]
        code, out, err = await why(api, blocked, "--json")
        assert (code, err) == (0, "")
        (line,) = out.splitlines()
        assert [v["code"] for v in json.loads(line)["verdicts"]] == ["constraint"]


async def test_a_job_that_no_worker_runs_comes_with_the_next_step(api: Api) -> None:
    code, out, _ = await why(api, await api.enqueue("work"))
    assert code == 0
    first, next_step = out.splitlines()[1:]
    assert first == "- No worker is registered for jobs named work."
    assert next_step.startswith("  Next: start a worker that serves this name, or correct the name; ")


@pytest.mark.req("D30")
async def test_a_limit_of_units_is_told_in_units(api: Api) -> None:
    weight = {"from": "argument.tokens", "default": 10, "unit": "tokens"}
    status, _ = await api.call(
        "PUT",
        "/api/constraints/model",
        {
            "matcher": {"field": "name", "op": "eq", "value": "work"},
            "concurrency": 5_000,
            "rate": {"limit": 100_000, "period_s": 60},
            "weight": weight,
        },
    )
    assert status == 201
    async with worker_at(api):
        await api.until_state(await api.enqueue("work", {"tokens": 4_100.5}), "running")
        blocked = await api.enqueue("work", {"tokens": 3_000})
        code, out, _ = await why(api, blocked)
    assert code == 0
    verdict, row = out.splitlines()[1], out.splitlines()[-1]
    assert "4,100.5 of 5,000 tokens taken by running jobs" in verdict
    assert "opens for this job's 3,000 when enough of them have ended" in verdict
    assert " ".join(row.split()) == (
        "model concurrency 4,100.5 of 5,000 tokens 4,100.5 of 100,000 tokens in 60 s 1"
    )


async def test_a_finished_job_is_over_and_has_no_table(api: Api) -> None:
    job = await api.enqueue("work", delay=60)
    await api.call("POST", f"/api/jobs/{job}/cancel")
    code, out, _ = await why(api, job)
    assert code == 0
    assert out.splitlines()[1:] == [out.splitlines()[1]]
    assert re.match(r"- It ended at \S+: canceled \(cause: canceled\)\. `jqmaster job ", out.splitlines()[1])


async def test_a_key_value_of_others_does_not_drive_the_terminal(api: Api) -> None:
    status, _ = await api.call(
        "PUT",
        "/api/constraints/c",
        {"matcher": {"field": "name", "op": "exists"}, "key": "argument", "paused": True},
    )
    assert status == 201
    job = await api.enqueue("work", "a\x1b[2Jb\u202e")
    code, out, _ = await why(api, job)
    assert code == 0
    assert "\x1b" not in out
    assert "\u202e" not in out
    assert '(argument = "a\\u001b[2Jb\\u202e"): it is paused until somebody resumes it.' in out


async def test_an_unknown_job_has_its_exit_code(api: Api) -> None:
    unknown = new_id()
    code, out, err = await why(api, unknown)
    assert (code, out) == (3, "")
    assert f"no job {unknown}" in err


async def test_without_a_job_it_explains_all_ready_jobs(api: Api) -> None:
    job = await api.enqueue("nobody")
    code, out, err = await why(api)
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "1 job waits: 1 without a worker.", f"- 1 without a worker, such as {job} (nobody)",
    ]  # fmt: skip
    code, out, _ = await why(api, "--name", "other")
    assert (code, out) == (0, "No job waits to start.\n")
    code, out, _ = await why(api, "--name", "nobody", "--json")
    assert json.loads(out)["causes"][0]["code"] == "no_worker"
    code, _, err = await why(api, job, "--name", "nobody")
    assert code == 2
    assert "--name" in err
