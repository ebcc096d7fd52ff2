"""Twenty questions of operators, each with the calls of tools that answer it. No model takes part: the calls are
scripted, and their answers must hold the fact that the question asks for."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import pytest_asyncio

pytest.importorskip("mcp", reason="the extra mcp is not installed")

from jqmaster.agents.server import TOOLS
from tests.support import real_time
from tests.support.agents import agent_at
from tests.support.master import PATIENT, Api, master_on
from tests.support.scripted_worker import worker_at
from tests.support.server import StoreServer
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.req("D32"), real_time.MASTER]

MAIL = {"field": "name", "op": "eq", "value": "mail"}


@dataclass(frozen=True)
class Question:
    """`calls`: tools with their arguments, in which `{word}` stands for an ID of the scene. `facts`: texts that the
    answers of all calls together must hold; `no_facts` must not be in them."""

    text: str
    calls: list[tuple[str, dict[str, Any]]]
    facts: list[str]
    no_facts: list[str] = field(default_factory=list)


QUESTIONS = [
    Question("Is anything broken right now?", [("health", {})], ['"status":"', '"command":"jqmaster ']),
    Question("How many jobs are running?", [("overview", {})], ['"running":1']),
    Question("Why is this mail job not running?", [("why", {"job_id": "{waiting}"})], ["constraint mails", "globex"]),
    Question("When can the next mail of globex start?", [("show_constraint", {"name": "mails", "value": "globex"})],
             ['"concurrency":1', "globex"]),
    Question("Who holds the slot of globex?", [("show_constraint", {"name": "mails"})], ["{running}"]),
    Question("Which limits do we have?", [("show_constraint", {})], ['"name":"mails"', '"name":"pause-']),
    Question("Who paused the reports, and why?", [("health", {})], ["jobs named report", "the database moves"]),
    Question("Why does this report not start?", [("why", {"job_id": "{report}"})], ["paused"]),
    Question("Is there a worker for thumbnails?", [("why", {"job_id": "{orphan}"})], ["No worker is registered"]),
    Question("What failed lately?", [("failures", {})], ['"name":"invoice"', "no route to bank"]),
    Question("What was the error of the failed invoice?", [("show_job", {"job_id": "{failed}"})],
             ["no route to bank", '"state":"failed"', '"from_job"']),
    Question("With which argument did it run?", [("show_job", {"job_id": "{failed}"})], ['"invoice":7']),
    Question("List the failed invoices.", [("find_jobs", {"state": "failed", "name": "invoice"})], ["{failed}"],
             ["{waiting}"]),
    Question("Which jobs wait the longest?", [("find_jobs", {"state": "ready", "order": "oldest"})], ["{waiting}"]),
    Question("How did invoices do in the last hour?", [("history", {"name": "invoice"})], ['"row_s":', '"failed":1']),
    Question("When does the nightly report run next?", [("next_runs", {"definition": "nightly"})],
             ['"next":["', "T02:00:00"]),
    Question("Which definitions are there?", [("next_runs", {})], ['"name":"nightly"', '"next_due_at":"']),
    Question("What would a limit of one mail at a time do?",
             [("preview_constraint", {"matcher": MAIL, "concurrency": 1})], ['"count":1', '"in_the_last_hour"']),
    Question("What would happen if I ran all failed invoices again?", [("retry", {"name": "invoice"})],
             ["It would run again 1 jobs", '"jobs":1', '"confirm":"']),
    Question("How do I limit jobs per customer?", [("search_docs", {"query": "limit jobs per value of a key"})],
             ["docs/constraints.md"]),
]  # fmt: skip


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene(store_server: StoreServer) -> AsyncIterator[tuple[str, dict[str, str]]]:
    """Yield the URL of a master on a bad night, and the IDs of its jobs."""
    async with master_on(store_server.url, **PATIENT) as (master, api):
        status, answer = await api.call(
            "PUT", "/api/constraints/mails", {"matcher": MAIL, "key": "argument.tenant", "concurrency": 1}
        )
        assert status == 201, answer
        nightly = {"kind": "time", "schedule": {"cron": "0 2 * * *"}, "job": {"name": "report"}}
        status, answer = await api.call("PUT", "/api/definitions/nightly", nightly)
        assert status == 201, answer
        async with worker_at(api, "mail", "report", "invoice") as worker:
            ids = {"running": await api.enqueue("mail", {"tenant": "globex"})}
            await worker.next_job()
            ids["failed"] = await api.enqueue("invoice", {"invoice": 7}, max_retry=0)
            await worker.end(await worker.next_job(), "failure", message="no route to bank")
            pause = {"job_name": "report", "reason": "the database moves"}
            assert (await api.call("POST", "/api/pauses", pause))[0] == 201
            ids["waiting"] = await api.enqueue("mail", {"tenant": "globex"})
            ids["report"] = await api.enqueue("report")
            ids["orphan"] = await api.enqueue("thumbnail")
            await _is_seen(api)
            yield master.server.url, ids


async def _is_seen(api: Api) -> None:
    """Wait until the master has counted and sampled what happened."""

    async def is_there() -> bool:
        groups = (await api.call("GET", "/api/failures"))[1]["groups"]
        codes = {one["code"] for one in (await api.call("GET", "/api/health"))[1]["findings"]}
        return bool(groups) and {"orphan", "pause", "full"} <= codes

    await wait_until(is_there, timeout_s=20, what="the failure, the pause and the full limit are known")


def test_there_are_twenty_questions_and_each_reading_tool_answers_one() -> None:
    assert len(QUESTIONS) == 20
    asked = {tool for question in QUESTIONS for tool, _ in question.calls}
    assert {name for name, tool in TOOLS.items() if tool.is_read_only} <= asked
    for question in QUESTIONS:
        for tool, arguments in question.calls:
            TOOLS[tool].check(arguments)


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.text)
async def test_the_right_calls_answer_the_question(
    question: Question, scene: tuple[str, dict[str, str]]
) -> None:
    url, ids = scene
    answers = []
    async with agent_at(url) as agent:
        for tool, arguments in question.calls:
            filled = {
                name: _with_ids(value, ids) if isinstance(value, str) else value
                for name, value in arguments.items()
            }
            answers.append(await agent.text(tool, **filled))
    text = "\n".join(answers)
    for fact in question.facts:
        assert _with_ids(fact, ids) in text, text
    for fact in question.no_facts:
        assert _with_ids(fact, ids) not in text, text


def _with_ids(fact: str, ids: dict[str, str]) -> str:
    for word, job_id in ids.items():
        fact = fact.replace("{" + word + "}", job_id)
    return fact
