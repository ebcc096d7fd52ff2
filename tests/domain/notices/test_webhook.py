"""The body of a webhook, its signature, and the job that delivers it."""

import base64
import json
from dataclasses import replace
from itertools import takewhile

import msgpack
import pytest

from jqmaster.domain.ids import is_id, new_id
from jqmaster.domain.jobs.job import OUTCOMES, STATES, Job, JobSpec, JobState, Notify
from jqmaster.domain.jobs.retry import backoff_ms
from jqmaster.domain.notices.delivery import DELIVERY_LIFE_MS
from jqmaster.domain.notices.webhook import (
    MAX_RESULT_BYTES,
    JobEnd,
    body_of,
    delivery_id,
    delivery_ids,
    delivery_job,
    origin_of,
    path_of,
    read_end,
    shown_url,
    signature,
    url_fault,
)
from jqmaster.net.webhook_secret import secret_bytes
from jqmaster.store import codec

pytestmark = pytest.mark.req("M10")

NOTIFY = Notify("https://shop.example:8443/hook?k=1", OUTCOMES)


def ended_job(state: JobState = JobState.FAILED, at_ms: int = 1_795_478_172_000) -> tuple[Job, JobEnd]:
    spec = JobSpec(id=new_id(), name="work", argument=b"\xc0", notify=NOTIFY)
    terms, _, rest = codec.encode_new(spec)
    head = codec.HEAD.pack(
        codec.VERSION, codec.STATE_CODES[state], terms[32], 1, 1, 1, 0, 0, 0, 5, at_ms, 0, 0, bytes(16), bytes(16),
        0, 5, 30_000, 7, 0, bytes(8), bytes(8),
    )  # fmt: skip
    return codec.decode_job(spec.id, head + rest), JobEnd(spec.id, state, at_ms)


def test_a_job_keeps_whom_to_notify_in_its_record() -> None:
    job, _ = ended_job()
    assert job.notify == NOTIFY


def test_the_example_of_standard_webhooks_has_the_signature_that_they_give() -> None:
    key = secret_bytes("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    signed = signature([key], "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert signed == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@pytest.mark.parametrize(
    "secret", ["", "MfKQ", "whsec_", "whsec_!!", "whsec_" + base64.b64encode(b"x" * 23).decode(),
               "whsec_" + base64.b64encode(b"x" * 65).decode()]
)  # fmt: skip
def test_a_secret_that_is_none_is_refused(secret: str) -> None:
    with pytest.raises(ValueError, match=r"secret|base64"):
        secret_bytes(secret)


@pytest.mark.parametrize(
    "url", ["", "x", "ftp://a/", "http://", "http:///x", "http://a@b/", "http://a/#", "http://a/ b", "http://a/\\b",
            "http://a:99999/", "http://[::1/", "http://a/é", "http://a:0/", "http://a/" + "x" * 2040]
)  # fmt: skip
def test_a_text_that_is_no_url_of_a_webhook_is_refused(url: str) -> None:
    assert url_fault(url)


@pytest.mark.parametrize("url", ["http://a", "https://a.example:8443/x?y=z&q=%20", "http://[::1]:8080/x"])
def test_urls_of_webhooks_are_called_as_they_are(url: str) -> None:
    assert url_fault(url) is None
    assert origin_of(url) + path_of(url) in (url, f"{url}/")


def test_a_query_is_not_shown() -> None:
    assert shown_url("http://a/b?token=t") == "http://a/b?…"
    assert shown_url("http://a/b") == "http://a/b"


def test_an_end_is_read_as_it_was_written() -> None:
    _, end = ended_job()
    assert read_end(f"{end.job_id}:{STATES[end.state].code}:{end.finished_at_ms}") == end
    for damaged in ("", "x", f"{end.job_id}:7", f"{end.job_id}:4:5", f"{end.job_id}:x:5", f"x:7:{5}"):
        assert read_end(damaged) is None


def test_each_end_has_one_delivery() -> None:
    job, end = ended_job()
    once = delivery_job(job, end, NOTIFY, b"{}")
    assert once == delivery_job(job, end, NOTIFY, b"{}")
    assert is_id(once.id)
    assert once.id != delivery_id(end.job_id, end.finished_at_ms + 1)


def test_a_delivery_is_tried_for_a_day() -> None:
    job, end = ended_job()
    spec = delivery_job(job, end, NOTIFY, b"{}")
    waits = [backoff_ms(spec.retry, n, jitter=0.5) for n in range(1, spec.max_retry + 1)]
    assert 4_000 <= waits[0] <= 6_000
    assert max(waits) == 3_600_000
    assert sum(waits) > DELIVERY_LIFE_MS
    assert spec.expires_at_ms == end.finished_at_ms + DELIVERY_LIFE_MS
    assert len(list(takewhile(lambda wait: wait < 3_600_000, waits))) <= 11


def test_results_are_told_as_json() -> None:
    job, end = ended_job(JobState.SUCCEEDED)
    value = {
        "type": "success",
        "result": {1: [b"\x00", float("nan"), msgpack.Timestamp(0), msgpack.ExtType(5, b"x")]},
    }
    data = json.loads(body_of(job, end, msgpack.packb(value)))["data"]
    assert data["result"]["result"] == {
        "1": [{"$bin": "AA=="}, None, "1970-01-01T00:00:00+00:00", {"$ext": [5, "eA=="]}]
    }
    large = msgpack.packb({"type": "success", "result": b"x" * MAX_RESULT_BYTES})
    data = json.loads(body_of(job, end, large))["data"]
    assert (data["result_omitted"], "result" in data) == (True, False)


@pytest.mark.parametrize(
    "result",
    [
        b"\x82\xa4type\xa7success\xa6result" + b"\x91" * 2_000 + b"\xc0",
        b"\x82\xa4type",
        b"\x81\xa6result\xc7\x0c\xff\x00\x00\x00\x00\x7f" + b"\xff" * 7,
    ],
    ids=["too deep", "cut off", "beyond the calendar"],
)
def test_a_result_that_cannot_be_read_is_left_out(result: bytes) -> None:
    job, end = ended_job(JobState.SUCCEEDED)
    data = json.loads(body_of(job, end, result))["data"]
    assert (data["result_omitted"], "result" in data) == (True, False)
    assert data["job_id"] == job.id


def test_a_webhook_tells_only_the_end_of_a_job_that_runs_again() -> None:
    job, end = ended_job()
    again = replace(job, state=JobState.READY, finished_at_ms=0)
    message = json.loads(body_of(again, end, None))
    assert message["type"] == "job.failed"
    assert set(message["data"]) == {"job_id", "name", "state", "finished_at"}


def test_each_end_of_a_job_has_a_delivery_of_its_own_the_newest_first() -> None:
    job, _ = ended_job(at_ms=3_000)
    ids = delivery_ids(job, [1_000, 3_000, 0, 2_000])
    assert ids == [delivery_id(job.id, at_ms) for at_ms in (3_000, 2_000, 1_000)]
    assert len(set(ids)) == 3
