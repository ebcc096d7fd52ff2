"""Jobs over HTTP."""

import contextlib
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from operator import attrgetter
from typing import Any, Final, get_args

from jqmaster.api.batches.schemas import BatchRequest
from jqmaster.api.encoding.envelopes import cut_field, read_list, read_map
from jqmaster.api.encoding.fast_path import usual_job, usual_jobs
from jqmaster.api.http.endpoint import Call, Handler, Reply, check
from jqmaster.api.http.query import query_error
from jqmaster.api.jobs import views
from jqmaster.api.jobs.schemas import JobRequest, PatchRequest, RetryJobRequest
from jqmaster.config import Durability
from jqmaster.domain.batches.batch import BatchSpec
from jqmaster.domain.identity.access import Scope
from jqmaster.domain.ids import id_match, is_id, new_id
from jqmaster.domain.jobs.job import FINISHED, JobSpec, JobState
from jqmaster.errors import (
    FieldError,
    InvalidError,
    JqmasterError,
    NotFoundError,
    TooLargeError,
    UnparsableError,
    after_it_was_done,
    invalid,
)
from jqmaster.service.jobs.operator_actions import JobActions
from jqmaster.store.identity.audit import encode_entry
from jqmaster.store.jobs.operator_actions import Changes

ARGUMENT: Final = frozenset({"argument"})
MAX_WAIT_S: Final = 60.0
# Headers of the answer to a caller that found no free place to wait. They close the connection, and make the
# caller repeat the call after a second.
COME_AGAIN: Final = ((b"retry-after", b"1"), (b"connection", b"close"))
_NUMBER: Final = re.compile(r"\d{1,20}(\.\d{0,20})?([eE][+-]?\d{1,3})?", re.ASCII)
# Maximum number of errors in the answer to a bulk. The check stops at this number, because further errors would
# tell the caller nothing new. No job is stored before the whole bulk is checked.
MAX_BULK_ERRORS: Final = 50
# Maximum number of names that an answer lists as unserved.
MAX_UNSERVED: Final = 10
# The header that lists the names in the request that no worker has ever served.
UNSERVED_NAMES: Final = b"jq-unserved-names"
_NIL: Final = b"\xc0"
# A header field that only deliveries to a target have.
_JOB_ID_FIELD: Final = b"jq-job-id"
_NAME: Final = attrgetter("name")
_Fields = tuple[tuple[bytes, bytes], ...]
_LEVELS: Final[tuple[Durability, ...]] = get_args(Durability)
_LEVEL_OF: Final = {level.encode(): level for level in _LEVELS}
_PROMISED: Final[Mapping[Durability, _Fields]] = {
    level: ((b"jq-durability", level.encode()),) for level in _LEVELS
}


async def enqueue(call: Call) -> Reply:
    fields = call.fields
    body = await call.body()
    spec = usual_job(body, call.limits.scan)
    if spec is None:
        request = check(JobRequest, read_map(body, ARGUMENT, limits=call.limits.scan))
        spec = request.to_spec(request.id or new_id())
    # Check the name first, because later checks reveal facts about jobs with this name.
    if (principal := call.principal) is not None and principal.allows_name is not None:
        call.services.reach.check_names(principal, (spec,))
    live = call.services.live.current
    size = len(spec.argument)
    if size > live.max_argument_bytes or size > call.services.quotas.argument_bytes.current:
        raise _argument_too_large(call, size, ())
    key = _idempotency_key(call) if b"idempotency-key" in fields else None
    durability = _durability(call) if b"jq-durability" in fields else live.durability
    if key is not None and spec.key:
        raise invalid([FieldError(("key",), "cannot be combined with the header Idempotency-Key")])
    found: _Fields = ()
    if live.check_arguments != "off" or not call.services.contracts.were_served((spec.name,)):
        found = await _contract_fields(call, [spec], is_bulk=False)
    answer = await call.services.enqueue.one(spec, key, caller=call.principal, durability=durability)
    body_of = views.enqueue_answer(answer)
    return Reply(201 if answer.is_new else 200, body_of, _PROMISED[durability] + found)


async def enqueue_bulk(call: Call) -> Reply:
    if b"idempotency-key" in call.fields:
        raise InvalidError(
            "the header Idempotency-Key is for single jobs; give each job of a bulk a key or an id instead"
        )
    durability = _durability(call)
    body = await call.body()
    asked, body = cut_field(body, "batch")
    specs = _bulk_specs(call, body)
    fields = _PROMISED[durability] + await _contract_fields(call, specs, is_bulk=True)
    if asked is None or asked == _NIL:
        answer = await call.services.enqueue.bulk(specs, caller=call.principal, durability=durability)
        return Reply(201, views.bulk_answer(answer), fields)
    batch = _batch_of(call, asked, specs)
    answer = await call.services.batches.create_with(
        batch, specs, caller=call.principal, durability=durability
    )
    return Reply(201, views.bulk_answer(answer) | {"batch": batch.id}, fields)


def _batch_of(call: Call, asked: bytes, specs: Sequence[JobSpec]) -> BatchSpec:
    """Return the batch of a bulk. Raise InvalidError for an invalid batch, or if a job names a batch of its own."""
    request = check(BatchRequest, read_map(asked, limits=call.limits.scan), ("batch",))
    errors = [
        FieldError(("jobs", index, "batch"), "the bulk already names the batch of all its jobs")
        for index, spec in enumerate(specs)
        if spec.batch is not None
    ]
    if errors:
        raise invalid(errors[:MAX_BULK_ERRORS])
    spec = request.to_spec(request.id or new_id(), call.known.identity)
    check_callbacks(call, spec, ("batch",))
    return spec


def check_callbacks(call: Call, spec: BatchSpec, loc: tuple[str | int, ...] = ()) -> None:
    """Raise TooLargeError if the argument of a callback is too large."""
    for callback, job in spec.callbacks.items():
        check_argument(call, job, (*loc, str(callback)))


async def get(call: Call) -> Reply:
    detail = await call.services.jobs.view(call.path["job_id"])
    # Without the scope `read`, a caller sees only the state of a job, even of a job that it may cancel.
    has_course = call.may(Scope.READ)
    is_matched = has_course and detail.job.state not in FINISHED
    matching = await call.services.constraints.matching(detail.job) if is_matched else []
    view = views.job_view(
        detail,
        matching,
        call.content,
        has_course=has_course,
        link_templates=call.services.settings.link_templates,
    )
    if has_course and detail.links and detail.links.dependents_count and _is_lost(detail.job.state):
        view["revives"] = await _revives(call)
    return Reply(200, view)


def _is_lost(state: JobState) -> bool:
    """Return whether a job ended without success. The jobs that need its success were then skipped."""
    return state in FINISHED and state is not JobState.SUCCEEDED


async def _revives(call: Call) -> dict[str, Any]:
    """Return a `RevivalView`."""
    return asdict(await call.services.flows.reader.revival(call.path["job_id"]))


async def retry(call: Call) -> Reply:
    job_id = call.path["job_id"]
    request = await _retry_request(call)
    revives = await _revives(call) if is_id(job_id) else None
    await call.services.job_actions.retry(job_id, attempt=request.attempt)
    with after_it_was_done():
        reply = await get(call)
        if revives and any(revives[what] for what in ("jobs", "held", "gone")):
            reply.value["revives"] = revives
        await write_down(call, call.path["job_id"], "job.retry")
        return reply


async def _retry_request(call: Call) -> RetryJobRequest:
    """Return the request in the body of the call. The body may be empty."""
    if b"content-type" not in call.fields and call.fields.get(b"content-length", b"0") == b"0":
        return RetryJobRequest()
    try:
        return await call.read(RetryJobRequest)
    except UnparsableError as exc:
        if exc.code != "empty_body":
            raise
        return RetryJobRequest()


async def result(call: Call) -> Reply:
    asked_s = wait_of(call.query("wait"))
    job_id = call.path["job_id"]
    # Put the job's ID into a header, because a null body does not name the job. Leave out a text that is not a
    # valid ID, because it may contain anything.
    named = ((_JOB_ID_FIELD, job_id.encode()),) if id_match(job_id) else ()
    principal = call.principal
    is_bound = principal is not None and principal.allows_name is not None
    if is_bound and not await call.services.reach.has_job(principal, job_id):
        return Reply(200, None, named)
    wait_s = min(asked_s, MAX_WAIT_S)
    with call.services.waiting.take() if wait_s > 0 else contextlib.nullcontext(True) as has_place:
        found = await call.services.jobs.result(job_id, wait_s=wait_s if has_place else 0.0)
    if isinstance(found, JobState):
        # Show the last error: a client that stops waiting needs to know why the job has not succeeded yet.
        error = (
            await call.services.excerpts.error(job_id, call.content) if found is JobState.RETRYING else None
        )
        body = {"state": str(found), "last_error": error}
        return Reply(202, body, named if has_place else (*named, *COME_AGAIN))
    return Reply(200, None if found is None else views.result_view(found), named)


def wait_of(query: Mapping[str, str]) -> float:
    """Return the query parameter `wait`, in seconds. Raise InvalidError."""
    wait = query.get("wait", "0")
    if not _NUMBER.fullmatch(wait):
        raise query_error("wait", "seconds, 0 or more")
    return float(wait)


async def patch(call: Call) -> Reply:
    request = await call.read(PatchRequest)
    job_id = call.path["job_id"]
    changes = Changes(
        priority=request.priority,
        run_at_ms=request.run_at,
        max_retry=request.max_retry,
        timeout_ms=None if request.timeout is None else round(request.timeout * 1000),
    )
    await call.services.job_actions.patch(job_id, changes)
    with after_it_was_done():
        reply = await get(call)
        await write_down(
            call, call.path["job_id"], "job.patch", request.model_dump(mode="json", exclude_unset=True)
        )
        return reply


async def cancel(call: Call) -> Reply:
    if not await call.services.reach.has_job(call.principal, call.path["job_id"]):
        raise NotFoundError(f"no job {call.path['job_id'][:64]}", code="unknown_job")
    await call.services.job_actions.cancel(call.path["job_id"])
    with after_it_was_done():
        reply = await get(call)
        await write_down(call, call.path["job_id"], "job.cancel")
        return reply


def acting(act: Callable[[JobActions, str], Awaitable[None]], audit_action: str) -> Handler:
    """Return the handler of an operator's action on one job. Generated clients take the name of the operation
    from `act`."""

    async def handler(call: Call) -> Reply:
        await act(call.services.job_actions, call.path["job_id"])
        with after_it_was_done():
            reply = await get(call)
            await write_down(call, call.path["job_id"], audit_action)
            return reply

    handler.__name__ = act.__name__
    return handler


async def delete(call: Call) -> Reply:
    await call.services.job_actions.delete(call.path["job_id"])
    with after_it_was_done():
        await write_down(call, call.path["job_id"], "job.delete")
    return Reply(204)


async def write_down(call: Call, job_id: str, action: str, after: Mapping[str, Any] | None = None) -> None:
    """Record an operator's action on one job in the audit log. Actions of pushers on their own jobs are not
    recorded."""
    if call.may(Scope.OPERATE):
        entry = encode_entry(who=call.who, action=action, target=job_id, before=None, after=after)
        await call.services.audit_writer.write(entry)


def _bulk_specs(call: Call, body: bytes) -> Sequence[JobSpec]:
    """Check all jobs of a bulk, and return them. Raise an InvalidError that names the first invalid jobs, up to a
    limit."""
    settings = call.services.settings
    items = read_list(
        body,
        "jobs",
        ARGUMENT,
        usual_job,
        max_items=settings.max_bulk_jobs,
        limits=call.limits.scan,
        all_usual=usual_jobs,
    )
    specs = items if isinstance(items, list) else _specs_of(items)
    call.services.reach.check_names(call.principal, specs)
    limit = min(settings.max_argument_bytes, call.services.quotas.argument_bytes.current)
    for index, spec in enumerate(specs):
        if len(spec.argument) > limit:
            raise _argument_too_large(call, len(spec.argument), ("jobs", index))
    return specs


def _specs_of(items: Iterable[JobSpec | dict[str, Any]]) -> list[JobSpec]:
    specs: list[JobSpec] = []
    errors: list[FieldError] = []
    for index, item in enumerate(items):
        try:
            specs.append(item if isinstance(item, JobSpec) else _spec_of(item, index))
        except InvalidError as exc:
            errors += exc.errors
            if len(errors) >= MAX_BULK_ERRORS:
                break
    if errors:
        raise InvalidError(f"no job was accepted; {invalid(errors).detail}", errors=errors)
    return specs


def _spec_of(fields: dict[str, Any], index: int) -> JobSpec:
    request = check(JobRequest, fields, ("jobs", index))
    return request.to_spec(request.id or new_id())


def check_argument(call: Call, spec: JobSpec, loc: tuple[str | int, ...] = ()) -> None:
    """Raise TooLargeError if the argument is too large, or InvalidError if it exceeds the quota of the namespace. The
    error names the field below `loc`."""
    limit = min(call.services.live.current.max_argument_bytes, call.services.quotas.argument_bytes.current)
    if len(spec.argument) > limit:
        raise _argument_too_large(call, len(spec.argument), loc)


def _argument_too_large(call: Call, size: int, loc: tuple[str | int, ...]) -> JqmasterError:
    limit, quota = call.services.live.current.max_argument_bytes, call.services.quotas.argument_bytes.current
    if limit >= size > quota:
        return InvalidError(
            f"the argument has more than {quota} bytes, the quota of its namespace; pass an ID and keep the data in "
            "your own store, or let an admin raise the quota argument_bytes",
            code="argument_over_quota",
            errors=[FieldError((*loc, "argument"), f"at most {quota} bytes")],
        )
    return TooLargeError(
        f"the argument has more than {limit} bytes; pass an ID and keep the data in your own store",
        code="argument_too_large",
        errors=[FieldError((*loc, "argument"), f"at most {limit} bytes")],
    )


def _idempotency_key(call: Call) -> str | None:
    key = call.fields.get(b"idempotency-key")
    if key is None:
        return None
    if not 1 <= len(key) <= 255 or not all(0x21 <= byte <= 0x7E for byte in key):
        raise InvalidError("Idempotency-Key must be 1 to 255 printable ASCII characters without spaces")
    return key.decode()


async def _contract_fields(call: Call, specs: Sequence[JobSpec], *, is_bulk: bool) -> _Fields:
    """Return the header fields that list contract violations and names that no worker has ever served. Raise
    InvalidError for violations if the settings refuse such jobs."""
    contracts, how = call.services.contracts, call.services.live.current.check_arguments
    found: _Fields = ()
    if how != "off" and (codes := await contracts.check(specs, is_bulk=is_bulk, refuses=how == "refuse")):
        found = ((b"jq-warning", ", ".join(codes).encode()),)
    if not contracts.were_served(map(_NAME, specs)):
        # Join the names with commas, which names cannot contain.
        unserved = ", ".join((await contracts.unserved([*map(_NAME, specs)]))[:MAX_UNSERVED])
        found += ((UNSERVED_NAMES, unserved.encode()),) if unserved else ()
    return found


def _durability(call: Call) -> Durability:
    """Return the durability that this push requests, or else the configured durability. Raises InvalidError."""
    asked = call.fields.get(b"jq-durability")
    if asked is None:
        return call.services.live.current.durability
    if (level := _LEVEL_OF.get(asked)) is not None:
        return level
    rule = f"one of {', '.join(_LEVELS)}"
    raise InvalidError(
        f"JQ-Durability must be {rule}", errors=[FieldError(("header", "JQ-Durability"), f"must be {rule}")]
    )
