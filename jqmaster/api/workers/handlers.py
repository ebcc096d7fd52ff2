"""Workers over HTTP."""

from typing import Any, Final, get_args

from jqmaster.api.encoding.envelopes import read_list, read_map
from jqmaster.api.encoding.fast_path import usual_success, usual_successes
from jqmaster.api.http.endpoint import Call, Handler, Reply, check
from jqmaster.api.http.query import query_error
from jqmaster.api.jobs.outcome_schemas import ENDINGS
from jqmaster.api.workers import views
from jqmaster.api.workers.fleet_schemas import SlotsRequest, WorkerSelectionRequest
from jqmaster.api.workers.heartbeats import outdated_reports, read_heartbeat
from jqmaster.api.workers.schemas import ClaimRequest, ObservationRequest, RegisterRequest, StartRequest
from jqmaster.domain.identity.caller import caller_of
from jqmaster.domain.jobs.outcome import Outcome
from jqmaster.domain.workers.worker import Worker
from jqmaster.domain.workers.worker_figures import GroupKind
from jqmaster.errors import (
    FieldError,
    InvalidError,
    JqmasterError,
    OverloadedError,
    TooLargeError,
    after_it_was_done,
    invalid,
)
from jqmaster.service.workers.operator_actions import WorkerCommand
from jqmaster.service.workers.worker_sets import SetCommand, jobs_of

# Header of a report. If a report has this header, the answer may contain the worker's next jobs.
JOBS_AFTER: Final = b"jq-jobs-after"
RAW_RESULT: Final = frozenset({"result", "error"})
MAX_RESULTS: Final = 500
# Maximum number of digits of a fence, because fences are below 2**53.
MAX_DIGITS: Final = 16
# Maximum size of a report that is decoded as a whole.
SHORT_REPORT_BYTES: Final = 64 * 1024
# Maximum number of ignored fields that an answer names.
MAX_TOLD: Final = 50
GROUP_KINDS: Final[tuple[GroupKind, ...]] = get_args(GroupKind)


async def register(call: Call) -> Reply:
    request = await call.read(RegisterRequest)
    call.services.owners.check_names(request.names, call.known)
    url = None if request.url is None else await call.services.admit_url(request.url)
    await call.services.contracts.declare(request.names, request.to_contracts())
    registered = await call.services.workers.register(
        request.to_spec(url),
        call.known.identity,
        caller=caller_of(call.address),
        # A caller with one of this process's own tokens is the worker in this process.
        companion_of=call.services.master_id if call.known.is_own else "",
    )
    settings = call.services.settings
    return Reply(
        201,
        {
            "worker_id": registered.worker_id,
            "epoch": registered.epoch,
            "store_time_ms": registered.store_time_ms,
            "heartbeat_interval_s": settings.heartbeat_interval_s,
            "lease_s": call.services.job_times.current.lease_ms / 1000,
        },
    )


async def heartbeat(call: Call) -> Reply:
    fields = read_map(await call.body(), limits=call.limits.scan)
    request, ignored = read_heartbeat(fields)
    await call.services.owners.check_heartbeat(
        call.path["worker_id"], call.known, token=call.bearer, proof=request.proof
    )
    # Read the lease time only once. If the setting changes during the call, the lease in the answer must not be
    # longer than the lease in the store.
    lease_ms = call.services.job_times.current.lease_ms
    # Keep several claims of one job: besides the current claim, a worker may still have to report an earlier
    # claim that it lost.
    claims = list(dict.fromkeys((claim.job_id, claim.token) for claim in request.running))
    answer = await call.services.workers.heartbeat(
        call.path["worker_id"],
        claims,
        request.free,
        request.as_of_ms,
        max_jobs=request.max_jobs,
        reports=[report for claim in request.running if (report := claim.to_report())],
        asks_to_continue=request.asks_to_continue,
    )
    ignored += outdated_reports(fields["running"], answer.outdated)
    settings, lease_now_ms = call.services.settings, call.services.job_times.current.lease_ms
    lease_ms = min(lease_ms, lease_now_ms)
    return Reply(
        200,
        {
            "epoch": answer.epoch,
            "store_time_ms": answer.now_ms,
            "fence": answer.fence,
            "lease_until_ms": answer.now_ms + (lease_ms if answer.is_renewed else 0),
            "heartbeat_interval_s": settings.heartbeat_interval_s,
            "lease_s": lease_now_ms / 1000,
            "cancel": [{"job_id": job_id, "token": token} for job_id, token in answer.to_cancel],
            "lost": [{"job_id": job_id, "token": token} for job_id, token in answer.lost],
            "drain": answer.is_draining,
            "detached": answer.is_detached,
            "max_jobs": answer.max_jobs,
            "continue_questions": settings.continue_questions,
            "continue_pause_s": settings.continue_pause_s,
        }
        | ({"ignored": [{"loc": list(e.loc), "msg": e.msg} for e in ignored[:MAX_TOLD]]} if ignored else {}),
    )


async def start(call: Call) -> Reply:
    request = await call.read(StartRequest)
    await _check_owner(call)
    claims = [(claim.job_id, claim.token) for claim in request.starts]
    confirmed, stale = await call.services.reports.confirm_start(call.path["worker_id"], claims)
    return Reply(200, {"confirmed": confirmed, "stale": stale})


async def results(call: Call) -> Reply:
    outcomes, refused = _outcomes(call, await call.body())
    if refused and not outcomes:
        raise next(iter(refused.values()))
    await _check_owner(call)
    after = call.fields.get(JOBS_AFTER)
    newest_fence = None
    if after is not None:
        if not after.isdigit() or len(after) > MAX_DIGITS:
            rule = "must be a fence, or 0"
            raise InvalidError(
                f"JQ-Jobs-After {rule}", errors=[FieldError(("header", "JQ-Jobs-After"), rule)]
            )
        newest_fence = int(after)
    report = await call.services.reports.take(call.path["worker_id"], outcomes, newest_fence)
    answer: dict[str, Any] = {"accepted": report.accepted, "stale": report.stale}
    if refused:
        answer["refused"] = [_refusal(index, exc) for index, exc in sorted(refused.items())]
    if (given := report.given) is not None:
        answer["epoch"], answer["store_time_ms"] = given.epoch, given.now_ms
        answer["jobs"] = [views.dispatch(offer) for offer in given.offers]
    return Reply(200, answer)


async def observe(call: Call) -> Reply:
    request = await call.read(ObservationRequest)
    await _check_owner(call)
    fault = await call.services.reports.observe(call.path["worker_id"], request.to_observed())
    return Reply(200, {"is_applied": not fault, "reason": fault})


async def claim(call: Call) -> Reply:
    request = await call.read(ClaimRequest)
    await _check_owner(call)
    ask = request.to_ask()
    with call.services.waiting.take(is_worker=True) as has_place:
        if not has_place and not ask.withdraws:
            raise OverloadedError("too many polls wait at this master", retry_after_s=1)
        reply = await call.services.polls.poll(call.path["worker_id"], ask, call.gone)
    return Reply(
        200,
        {
            "epoch": reply.epoch,
            "store_time_ms": reply.now_ms,
            "jobs": [views.dispatch(offer) for offer in reply.offers],
            "drain": reply.is_draining,
        },
    )


async def list_workers(call: Call) -> Reply:
    call.query()
    services = call.services
    now_ms = await services.store_time_ms()
    breakers = services.breakers()
    stale_ms = _stale_ms(call)
    workers = await services.workers.all()
    figures = await services.worker_figures.of(workers)
    return Reply(
        200,
        {
            "workers": [
                views.worker_view(
                    w, figures[w.id], now_ms=now_ms, stale_ms=stale_ms, breaker=breakers.get(w.id)
                )
                for w in workers
            ]
        },
    )


async def list_groups(call: Call) -> Reply:
    by = call.query("by").get("by", "node")
    kind = next((kind for kind in GROUP_KINDS if kind == by), None)
    if kind is None:
        raise query_error("by", f"one of {', '.join(GROUP_KINDS)}")
    now_ms = await call.services.store_time_ms()
    groups = await call.services.worker_figures.groups(kind)
    shown = [views.worker_group(group, now_ms=now_ms, stale_ms=_stale_ms(call)) for group in groups]
    return Reply(200, {"by": kind, "groups": shown})


async def get(call: Call) -> Reply:
    worker = await call.services.workers.get(call.path["worker_id"])
    return Reply(200, await _detail(call, worker))


def command(name: WorkerCommand) -> Handler:
    """Return the handler that sends this command to a worker. The handler has the name of the command, because
    generated clients use this name."""

    async def give(call: Call) -> Reply:
        worker = await call.services.worker_actions.command(name, call.path["worker_id"], call.who)
        with after_it_was_done():
            return Reply(200, await _detail(call, worker))

    give.__name__ = name
    return give


async def set_slots(call: Call) -> Reply:
    request = await call.read(SlotsRequest)
    worker = await call.services.worker_actions.set_slots(
        call.path["worker_id"],
        request.max_jobs,
        call.who,
        is_kept=request.keep,
        now_ms=await call.services.store_time_ms(),
    )
    with after_it_was_done():
        return Reply(200, await _detail(call, worker))


async def list_slot_rules(call: Call) -> Reply:
    call.query()
    rules = await call.services.worker_actions.slot_rules()
    return Reply(200, {"slot_rules": [views.slot_rule(rule) for rule in rules]})


async def drop_slot_rule(call: Call) -> Reply:
    await call.services.worker_actions.drop_slot_rule(call.path["rule_id"], call.who)
    return Reply(204)


async def drain_set(call: Call) -> Reply:
    return await _command_set(call, "drain")


async def resume_set(call: Call) -> Reply:
    return await _command_set(call, "resume")


async def _command_set(call: Call, command: SetCommand) -> Reply:
    request = await call.read(WorkerSelectionRequest)
    sets, selection = call.services.worker_sets, request.to_selection()
    workers = (
        await sets.affected_by(command, selection)
        if request.dry_run
        else await sets.command(command, selection, call.who)
    )
    return Reply(
        200,
        {
            "dry_run": request.dry_run,
            "count": len(workers),
            "jobs": jobs_of(workers),
            "worker_ids": [worker.id for worker in workers],
        },
    )


async def _detail(call: Call, worker: Worker) -> dict[str, Any]:
    services = call.services
    return views.worker_detail(
        worker,
        await services.workers.held(worker.id),
        await services.worker_figures.of_one(worker),
        now_ms=await services.store_time_ms(),
        stale_ms=_stale_ms(call),
        breaker=services.breakers().get(worker.id),
    )


def _stale_ms(call: Call) -> int:
    return round(call.services.settings.worker_stale_s * 1000)


async def announce_leave(call: Call) -> Reply:
    await _check_owner(call)
    await call.services.workers.announce_leave(call.path["worker_id"])
    return Reply(204)


async def leave(call: Call) -> Reply:
    await _check_owner(call)
    await call.services.workers.leave(call.path["worker_id"])
    return Reply(204)


async def _check_owner(call: Call) -> None:
    await call.services.owners.check(call.path["worker_id"], call.known)


def _outcomes(call: Call, body: bytes) -> tuple[list[Outcome], dict[int, JqmasterError]]:
    """Return the valid results of a call, and the faults of the invalid results by index. An invalid result must
    not prevent the jobs of the valid results from ending."""
    limit = call.services.live.current.max_result_bytes
    # Decode short reports of successes as a whole, because most reports are of this kind.
    if (
        len(body) <= SHORT_REPORT_BYTES
        and (usual := usual_successes(body, call.limits.scan))
        and len(usual) <= MAX_RESULTS
        and not [one for one in usual if one.result is not None and len(one.result) > limit]
    ):
        return usual, {}
    outcomes: list[Outcome] = []
    refused: dict[int, JqmasterError] = {}
    items = read_list(
        body, "results", RAW_RESULT, usual_success, max_items=MAX_RESULTS, limits=call.limits.scan,
        all_usual=usual_successes, on_bad=refused.__setitem__,
    )  # fmt: skip
    index = -1
    for item in items:
        index += 1
        while index in refused:
            index += 1
        try:
            outcome = item if isinstance(item, Outcome) else _ending(item, ("results", index))
            result, error = outcome.result, outcome.error
            if (result is not None and len(result) > limit) or (error is not None and len(error) > limit):
                raise _too_large(outcome, index, limit)
        except JqmasterError as exc:
            refused[index] = exc
        else:
            outcomes.append(outcome)
    return outcomes, refused


def _refusal(index: int, exc: JqmasterError) -> dict[str, Any]:
    """Return a `RefusedResult`."""
    errors = [{"loc": list(error.loc), "msg": error.msg} for error in exc.errors]
    return {"index": index, "code": exc.code, "detail": exc.detail, "errors": errors}


def _ending(item: dict[str, Any], loc: tuple[str | int, ...]) -> Outcome:
    # Choose the model in this function: pydantic would add the chosen type to the location of every error.
    kind = item.get("type")
    model = ENDINGS.get(kind) if isinstance(kind, str) else None
    if model is None:
        rule = f"must be one of {', '.join(ENDINGS)}"
        raise invalid([FieldError((*loc, "type"), rule)])
    return check(model, item, loc).to_outcome()


def _too_large(outcome: Outcome, index: int, limit: int) -> TooLargeError:
    name = "result" if outcome.result is not None and len(outcome.result) > limit else "error"
    return TooLargeError(
        f"a {name} has more than {limit} bytes; keep it in your own store and return its address",
        code=f"{name}_too_large",
        errors=[FieldError(("results", index, name), f"at most {limit} bytes")],
    )
