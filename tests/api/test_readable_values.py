"""Every later reader can decode the values that the API accepts: workers, pushers, views, constraints and the web
UI."""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgpack
import pytest
from hypothesis import HealthCheck, example, given, settings

from jqmaster.api.encoding.answers import encode
from jqmaster.api.encoding.envelopes import read_list, read_map
from jqmaster.api.encoding.fast_path import usual_job, usual_jobs, usual_success, usual_successes
from jqmaster.api.encoding.negotiation import Encoding
from jqmaster.api.encoding.validator import ScanLimits
from jqmaster.api.jobs import views
from jqmaster.api.jobs.outcome_schemas import ENDINGS
from jqmaster.api.workers.views import dispatch
from jqmaster.domain.content.content import ContentAccess
from jqmaster.domain.content.redact import Redactor
from jqmaster.domain.ids import new_id
from jqmaster.domain.jobs.job import DEFAULT_RETRY, Attempt, Cause, Job, JobState
from jqmaster.domain.matching.key_value import key_value
from jqmaster.errors import InvalidError, JqmasterError, TooLargeError, UnparsableError
from jqmaster.runtime.outbound.push_body import encode_push
from jqmaster.service.jobs.reader import JobDetail
from jqmaster.store import codec
from jqmaster.store.jobs.claims import Claim, ClaimedJob
from jqmaster.store.jobs.placement import fields_of
from jqmaster.store.workers.polls import Offer
from tests.support.encoded_values import encoded_values
from tests.support.histories import NIGHTLY
from tests.support.scripted_worker import FINISHED_AT
from worker_sdk.masters.masters import read_answer
from worker_sdk.wire import decode

# Thousands of values take minutes on a busy machine.
pytestmark = pytest.mark.timeout(1_800 if NIGHTLY else 120)

LIMITS: Final = ScanLimits(max_nesting=32, max_nodes=20_000)
TOKEN: Final = "ab" * 16
_REDACTORS: Final = [
    Redactor([]),
    Redactor(["argument.a", "result.card.*", "error.**.a"]),
    Redactor([
        f"{root}.{path}"
        for root in ("argument", "result", "error")
        for path in ("**.a", "*.card", "0", "$bin", "*")
    ]),
]  # fmt: skip

ACCESSES: Final = [ContentAccess(is_granted, one) for is_granted in (True, False) for one in _REDACTORS]

EXAMPLES: Final = settings(
    max_examples=5_000 if NIGHTLY else 300,
    deadline=None,
    derandomize=not NIGHTLY,
    suppress_health_check=list(HealthCheck),
)

# Requests up to their value.
JOB: Final = b"\x82\xa4name\xa4work\xa8argument"
RARE_JOB: Final = b"\x83\xa4name\xa4work\xa4tags\x91\xa1t\xa8argument"


def ending(kind: str, field: str) -> bytes:
    """Encode a report up to its value."""
    fields: dict[str, Any] = {"type": kind, "job_id": new_id(), "token": TOKEN, "finished_at": FINISHED_AT}
    if kind == "failure":
        fields |= {"reason": "other", "should_retry": True, "message": "it failed"}
    head = msgpack.packb(fields)
    return bytes([head[0] + 1]) + head[1:] + msgpack.packb(field)


def accepted(read: Callable[[], object], loc: tuple[str | int, ...]) -> bool:
    """Return whether the API accepts the value; if not, it must name the field and not fail with an internal error."""
    try:
        read()
    except (InvalidError, TooLargeError, UnparsableError) as exc:
        named = [error.loc for error in exc.errors]
        # A broken message may have no field to name.
        is_broken = isinstance(exc, UnparsableError) and named == []
        if named != [loc] and not is_broken:
            pytest.fail(f"{exc!r} names {named}")
        return False
    return True


@EXAMPLES
@given(encoded_values())
@example(b"\xc7\x00\x80")
@example(b"\xd4\xfe\x00")
@example(b"\x81\xa1a\xd4\x80\x00")
def test_every_argument_that_is_accepted_can_be_decoded_by_all_who_read_it(value: bytes) -> None:
    is_accepted = accepted(
        lambda: read_map(JOB + value, frozenset({"argument"}), limits=LIMITS), ("argument",)
    )
    bulk = b"\x81\xa4jobs\x92" + JOB + b"\x01" + JOB + value
    assert accepted(lambda: list(read_jobs(bulk)), ("jobs", 1, "argument")) is is_accepted
    assert (
        accepted(lambda: read_map(RARE_JOB + value, frozenset({"argument"}), limits=LIMITS), ("argument",))
        is is_accepted
    )
    # The fast path may leave a job to the slow path, but never accepts a job that the slow path refuses.
    if usual_job(JOB + value, LIMITS) is not None or usual_jobs(bulk, LIMITS) is not None:
        assert is_accepted
    if is_accepted:
        assert_workers_read(value)
        assert_views_read(value)
        assert_constraints_read(value)


@EXAMPLES
@given(encoded_values())
@example(b"\xc7\x00\x80")
@example(b"\x81\xa1a\xd4\x80\x00")
def test_every_result_and_error_that_is_accepted_can_be_decoded_by_all_who_read_it(value: bytes) -> None:
    for kind, field in (("success", "result"), ("failure", "error")):
        head = ending(kind, field)
        report = b"\x81\xa7results\x91" + head + value
        is_accepted = accepted(lambda report=report: list(read_results(report)), ("results", 0, field))
        if usual_success(head + value, LIMITS) is not None or usual_successes(report, LIMITS) is not None:
            assert is_accepted
        if is_accepted:
            assert_views_read(value)


def read_jobs(body: bytes) -> Any:
    return read_list(
        body, "jobs", frozenset({"argument"}), usual_job, max_items=10, limits=LIMITS, all_usual=usual_jobs
    )


def read_results(body: bytes) -> Any:
    return read_list(
        body, "results", frozenset({"result", "error"}), usual_success, max_items=10, limits=LIMITS,
        all_usual=usual_successes,
    )  # fmt: skip


# --- the readers


def assert_workers_read(argument: bytes) -> None:
    """Check a push, and the answer to a worker that pulls."""
    record = codec.ClaimedRecord(1, 1000, "work", {}, argument)
    job = ClaimedJob(new_id(), TOKEN, 7, record)
    (pushed,) = decode(encode_push(new_id(), 1, Claim(1, 1, 2, 3, [job])))["jobs"]
    answer = encode({"jobs": [dispatch(Offer(job, 1, 2))]}, Encoding.MSGPACK)
    (pulled,) = read_answer(200, "application/msgpack", None, answer).body["jobs"]
    assert repr(pushed["argument"]) == repr(pulled["argument"]) == repr(decode(argument))
    # The job goes on to another process in the same form.
    msgpack.packb(pushed["argument"], datetime=True)


def assert_views_read(value: bytes) -> None:
    """Check the value as argument, as result and as error of an attempt, each with and without redaction."""
    success = codec.encode_result(outcome("success", result=value))
    failure = codec.encode_result(outcome("failure", error=value))
    for result in (success, failure):
        shown = decode(encode(views.result_view(result), Encoding.MSGPACK))
        assert repr(shown.get("result", shown.get("error"))) == repr(decode(value))
        read_json(encode(views.result_view(result), Encoding.JSON))
        for access in ACCESSES:
            view = views.job_view(detail(value, result), [], access, has_course=True)
            found = decode(encode(view, Encoding.MSGPACK))
            assert found["argument_bytes"] == len(value)
            read_json(encode(view, Encoding.JSON))


def assert_constraints_read(argument: bytes) -> None:
    """Matchers and keys read it."""
    fields = fields_of(detail(argument, None).job)
    key_value(fields.argument).text.encode()


def read_json(text: bytes) -> Any:
    """Decode JSON as browsers do, which refuse NaN."""
    return json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


def outcome(kind: str, **fields: Any) -> Any:
    claim: Mapping[str, Any] = {"job_id": new_id(), "token": TOKEN, "finished_at": FINISHED_AT}
    needed = {"reason": "other", "should_retry": False} if kind == "failure" else {}
    return ENDINGS[kind].model_validate({**claim, **needed, "type": kind, **fields}).to_outcome()


def detail(value: bytes, result: bytes | None) -> JobDetail:
    job = Job(
        id=new_id(), name="work", state=JobState.FAILED, cause=Cause.ERROR, priority=0, max_retry=0, timeout_ms=1000,
        keep_result=True, rerun_lost=False, is_confirmed=False, attempt=1, failures=1, losses=0, returned_offers=0,
        created_at_ms=1, due_at_ms=0, expires_at_ms=0, started_at_ms=2, finished_at_ms=3, not_after_ms=0, fence=1,
        token="",
        worker_id="", retry=DEFAULT_RETRY, tags=(), headers={}, argument=value, lane_id=bytes(8),
    )  # fmt: skip
    return JobDetail(job, [Attempt(1, "", 2, 3, "failure", "it failed", value)], [], result)


def test_a_refusal_says_which_codes_there_are() -> None:
    with pytest.raises(InvalidError) as error:
        read_map(JOB + b"\xd4\x80\x00", frozenset({"argument"}), limits=LIMITS)
    assert error.value.code == "bad_ext"
    assert "-128" in error.value.detail
    with pytest.raises(JqmasterError):
        read_map(b"\x82\xa4name\xa4work\xa4tags\xd4\x80\x00", limits=LIMITS)
