"""`jqmaster challenges` as operators use it: real processes against a real master."""

import json
from pathlib import Path

import pytest

from tests.support import real_time
from tests.support.cli import Cli
from tests.support.master import Api
from tests.support.scripted_worker import puller_at

pytestmark = [pytest.mark.system, pytest.mark.req("P4"), real_time.PROCESSES]


@pytest.fixture
def cli(api: Api, tmp_path: Path) -> Cli:
    return Cli(str(api.http.base_url), tmp_path)


async def test_a_challenge_is_listed_shown_and_answered(api: Api, cli: Cli) -> None:
    job_id = await api.enqueue("order")
    assert "opened no challenge" in (await cli("challenges", "show", job_id)).out
    assert "is open" in (await cli("challenges", "answer", job_id)).err
    async with puller_at(api, "order") as worker:
        (job,) = await worker.claim()
        request = {"job_id": job_id, "token": job["token"], "timeout_s": 60.0, "meta": {"order": 42}}
        _, opened = await api.call("POST", f"/api/workers/{worker.id}/challenges", request)
        await worker.end(job, "challenged", request_id=opened["request_id"])
        assert job_id in (await cli("challenges", "list", "--state", "processing")).out
        (listed,) = (await cli("challenges", "list", "--json")).lines()
        assert (listed["state"], listed["received"]) == ("processing", 0)
        shown = (await cli("challenges", "show", job_id)).out
        assert "42" in shown
        assert opened["request_id"] not in shown
        assert (await cli("challenges", "answer", job_id, "{")).code != 0
        assert "answered" in (await cli("challenges", "answer", job_id, '{"paid": true}')).out
        again = await cli("challenges", "answer", job_id, '{"paid": true}', "--request", listed["request"])
        assert "came before" in again.out
        (job,) = await worker.claim()
        assert job["callback"]["body"] == b'{"paid": true}'
        await worker.end(job)
    assert (await cli("challenges", "list", "--state", "processing", "--json")).lines() == []


@pytest.mark.req("P10")
async def test_a_person_answers_a_form_by_commands(api: Api, cli: Cli) -> None:
    job_id = await api.enqueue("refund")
    form = {
        "title": "Refund order 42?",
        "description": "It came back.",
        "choices": [{"value": "approve"}, {"value": "reject", "label": "No", "skips_fields": True}],
        "fields": {
            "type": "object",
            "properties": {"amount": {"type": "number"}, "note": {"type": "string"}},
            "required": ["amount"],
        },
    }
    async with puller_at(api, "refund") as worker:
        (job,) = await worker.claim()
        request = {"job_id": job_id, "token": job["token"], "timeout_s": 60.0, "form": form}
        _, opened = await api.call("POST", f"/api/workers/{worker.id}/challenges", request)
        await worker.end(job, "challenged", request_id=opened["request_id"])
        shown = (await cli("challenges", "show", job_id)).out
        assert "asks  Refund order 42?" in shown
        assert "choices  approve, reject (No)" in shown
        assert "one of approve, reject" in (await cli("challenges", "answer", job_id)).err
        wrong = await cli("challenges", "answer", job_id, "--choice", "approve", "--field", "amount=much")
        assert (wrong.code != 0, "must be of the type number" in wrong.err) == (True, True)
        assert (
            "NAME=VALUE"
            in (await cli("challenges", "answer", job_id, "--choice", "approve", "--field", "amount")).err
        )
        assert (await cli("challenges", "answer", job_id, "{}", "--choice", "approve")).code != 0
        assert (await cli("challenges", "answer", job_id, "--comment", "Fine.")).code != 0
        answered = await cli(
            "challenges", "answer", job_id, "--choice", "approve", "--comment", "Fine.", "--field", "amount=12.5",
            "--field", "note=7",
        )  # fmt: skip
        assert "answered" in answered.out
        (job,) = await worker.claim()
        body = json.loads(job["callback"]["body"])
        assert (body["choice"], body["values"]) == ("approve", {"amount": 12.5, "note": "7"})
        await worker.end(job)
    shown = (await cli("challenges", "show", job_id)).out
    assert "approve by local from 127.0.0.1: Fine." in shown
    assert "link" in (await cli("challenges", "list")).out
