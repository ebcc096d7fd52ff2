"""Fireworq's API: queues, routings, jobs and figures."""

import asyncio
import functools
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import parse_qsl

import msgspec

from jqmaster import __version__
from jqmaster.api.encoding.negotiation import Encoding
from jqmaster.api.fireworq import views
from jqmaster.api.fireworq.schemas import BodyT, JobBody, QueueBody, RoutingBody, parsed
from jqmaster.api.http.endpoint import Call, Reply
from jqmaster.api.jobs.handlers import check_argument, write_down
from jqmaster.domain.fireworq.numbers import id_of
from jqmaster.domain.fireworq.queue import (
    DEFAULT_MAX_WORKERS,
    DEFAULT_POLLING_INTERVAL_MS,
    MAX_CATEGORY,
    FireworqQueue,
)
from jqmaster.domain.jobs.job import FINISHED, HOLDS_SLOTS, Job, JobState, StateGroup
from jqmaster.domain.jobs.job_filter import JobFilter
from jqmaster.domain.operations.master import MasterRole
from jqmaster.errors import NotFoundError, UnparsableError, after_it_was_done
from jqmaster.service.fireworq.gateway import FireworqGateway
from jqmaster.service.fireworq.queues import REFRESH_S, FireworqQueues, no_routing
from jqmaster.service.jobs.reader import JobDetail, ListOrder
from jqmaster.store.jobs.listing import Page, first_ahead

MAX_PAGE: Final = 500
_USUAL_PAGE: Final = 100
# Maximum number of pages of the list of all jobs to read for one page of a queue. The cursor continues after the
# last page that was read.
_MAX_READS: Final = 20
_JSON: Final = Encoding.JSON.value.encode()
_TEXT: Final = b"text/plain; charset=utf-8"


def _reply(value: Any) -> Reply:
    return Reply(200, msgspec.json.encode(value), media_type=_JSON)


async def _body(call: Call, model: type[BodyT]) -> BodyT:
    # Declare the body as MessagePack so that no code converts it. So a payload stays the text that the client
    # sent.
    call.fields = {**call.fields, b"content-type": Encoding.MSGPACK.value.encode()}
    return parsed(await call.body(), model)


def _gateway(call: Call) -> FireworqGateway:
    gateway = call.services.fireworq
    assert gateway is not None, "without the gateway there are no routes"
    return gateway


def _queues(call: Call) -> FireworqQueues:
    return _gateway(call).queues


# --- queues


async def list_queues(call: Call) -> Reply:
    found = await _queues(call).all()
    return _reply([queue.document for queue in found.queues.values()])


async def get_queue(call: Call) -> Reply:
    return _reply((await _queues(call).queue(call.path["queue"])).document)


async def put_queue(call: Call) -> Reply:
    queue = (await _body(call, QueueBody)).to_queue(call.path["queue"])
    await _queues(call).put_queue(queue, call.who)
    return _reply(queue.document)


async def delete_queue(call: Call) -> Reply:
    return _reply((await _queues(call).delete_queue(call.path["queue"], call.who)).document)


async def queue_node(call: Call) -> Reply:
    await _queues(call).queue(call.path["queue"])
    masters, _ = await call.services.masters.all()
    leader = next((one for one in masters if one.role is MasterRole.LEADER and one.is_fresh), None)
    if leader is None:
        raise NotFoundError("no master leads now")
    return _reply({"id": leader.seen.record.id, "host": leader.seen.record.node_id})


async def queue_stats(call: Call) -> Reply:
    queue = await _queues(call).queue(call.path["queue"])
    return _reply((await _stats(call, {queue.name: queue}))[queue.name])


async def all_stats(call: Call) -> Reply:
    return _reply(await _stats(call, (await _queues(call).all()).queues))


async def _stats(call: Call, queues: Mapping[str, FireworqQueue]) -> dict[str, dict[str, Any]]:
    services = call.services
    masters, _ = await services.masters.all()
    is_led = any(one.role is MasterRole.LEADER and one.is_fresh for one in masters)
    running = {
        stored.constraint.name: usage.running or 0 for stored, usage in await services.constraints.all()
    }
    return {
        name: views.stats_view(
            queue,
            *await services.stats.counts_of(queue.job_name),
            running=running.get(queue.object_name, 0),
            is_led=is_led,
        )
        for name, queue in queues.items()
    }


# --- routings


async def list_routings(call: Call) -> Reply:
    found = await _queues(call).all()
    return _reply([_routing(category, queue) for category, queue in found.routings.items()])


async def get_routing(call: Call) -> Reply:
    category = call.path["category"]
    for at_once in (False, True):
        queue = (await _queues(call).all(at_once=at_once)).routings.get(category)
        if queue is not None:
            return _reply(_routing(category, queue))
    raise no_routing(category)


async def put_routing(call: Call) -> Reply:
    category, queue = call.path["category"], (await _body(call, RoutingBody)).queue_name
    if len(category) > MAX_CATEGORY:
        raise UnparsableError(f"the category is longer than {MAX_CATEGORY} characters")
    if not queue:
        raise UnparsableError("queue_name is missing")
    await _queues(call).put_routing(category, queue, call.who)
    return _reply(_routing(category, queue))


async def delete_routing(call: Call) -> Reply:
    category = call.path["category"]
    return _reply(_routing(category, await _queues(call).delete_routing(category, call.who)))


def _routing(category: str, queue: str) -> dict[str, str]:
    return {"queue_name": queue, "job_category": category}


# --- jobs


async def push(call: Call) -> Reply:
    category = call.path["category"]
    body = await _body(call, JobBody)
    wanted = body.to_push(category)
    queue = await _queues(call).queue_of(category)
    number = await _gateway(call).pushes.push(
        wanted, queue, caller=call.principal, check=functools.partial(check_argument, call)
    )
    return _reply({"id": number, "queue_name": queue.name, "category": category, **body.document()})


async def list_grabbed(call: Call) -> Reply:
    return await _list_jobs(call, group=StateGroup.RUNNING)


async def list_waiting(call: Call) -> Reply:
    return await _list_jobs(call, state=JobState.READY)


async def list_deferred(call: Call) -> Reply:
    return await _list_jobs(call, group=StateGroup.WAITING, from_the_ones_ahead=True)


async def _list_jobs(
    call: Call,
    *,
    state: JobState | None = None,
    group: StateGroup | None = None,
    from_the_ones_ahead: bool = False,
) -> Reply:
    queue, query = await _queues(call).queue(call.path["queue"]), _query(call, "order", "limit", "cursor")
    order: ListOrder = "oldest" if query.get("order") == "asc" else "newest"
    cursor = query.get("cursor") or (
        first_ahead(is_backward=order == "newest") if from_the_ones_ahead else None
    )
    page = await _page(
        call, JobFilter(name=queue.job_name, state=state, group=group), _limit(query), cursor, order
    )
    shown = [views.job_view(job, call.content) for job in page.jobs]
    return _reply({"jobs": shown, "next_cursor": page.cursor or ""})


async def list_failed(call: Call) -> Reply:
    queue, query = await _queues(call).queue(call.path["queue"]), _query(call, "order", "limit", "cursor")
    wanted = JobFilter(name=queue.job_name, state=JobState.FAILED)
    page = await _page(call, wanted, _limit(query), query.get("cursor") or None, "newest")
    found = await asyncio.gather(
        *(call.services.jobs.view(job.id) for job in page.jobs), return_exceptions=True
    )
    # Skip jobs that were deleted in the meantime.
    details = [detail for detail in map(_or_none, found) if detail is not None]
    if query.get("order") == "created":
        details.sort(key=lambda detail: detail.job.created_at_ms, reverse=True)
    shown = [_failure(call, detail) for detail in details]
    return _reply({"failed_jobs": shown, "next_cursor": page.cursor or ""})


def _or_none(found: JobDetail | BaseException) -> JobDetail | None:
    if isinstance(found, NotFoundError):
        return None
    if isinstance(found, BaseException):
        raise found
    return found


async def _page(call: Call, wanted: JobFilter, limit: int, cursor: str | None, order: ListOrder) -> Page:
    """Return a page of the jobs of a queue. The store's lists contain jobs of all queues, so one page may take
    several reads."""
    jobs: list[Job] = []
    looked_at = 0
    for _ in range(_MAX_READS):
        listed = await call.services.jobs.page(wanted, limit=limit - len(jobs), cursor=cursor, order=order)
        jobs += listed.page.jobs
        looked_at += listed.page.looked_at
        cursor = listed.page.cursor
        if cursor is None or len(jobs) >= limit:
            break
    return Page(jobs, cursor, looked_at, False)


async def get_job(call: Call) -> Reply:
    return _reply(views.job_view((await _unfinished(call)).job, call.content))


async def delete_job(call: Call) -> Reply:
    detail = await _unfinished(call)
    job = detail.job
    if job.state in HOLDS_SLOTS:
        # Cancel a running job before the deletion, so that a later answer of its endpoint has no effect.
        await call.services.job_actions.cancel(job.id)
        with after_it_was_done():
            await write_down(call, job.id, "job.cancel")
    await _delete(call, job)
    return _reply(views.job_view(job, call.content))


async def get_failure(call: Call) -> Reply:
    return _reply(_failure(call, await _failed(call)))


async def delete_failure(call: Call) -> Reply:
    detail = await _failed(call)
    await _delete(call, detail.job)
    return _reply(_failure(call, detail))


async def _delete(call: Call, job: Job) -> None:
    await call.services.job_actions.delete(job.id)
    with after_it_was_done():
        await write_down(call, job.id, "job.delete")


def _failure(call: Call, detail: JobDetail) -> dict[str, Any]:
    last = detail.attempts[-1] if detail.attempts else None
    return views.failure_view(detail.job, last, call.content)


async def _unfinished(call: Call) -> JobDetail:
    detail = await _job(call)
    if detail.job.state in FINISHED:
        raise _no_job(call)
    return detail


async def _failed(call: Call) -> JobDetail:
    detail = await _job(call)
    if detail.job.state is not JobState.FAILED:
        raise _no_job(call)
    return detail


async def _job(call: Call) -> JobDetail:
    """Return the queue's job with the number that the path names. Raise UnparsableError or NotFoundError."""
    queue, text = await _queues(call).queue(call.path["queue"]), call.path["id"]
    if not (text.isascii() and text.isdigit()):
        raise UnparsableError("the ID of a job must be a whole number")
    job_id = id_of(int(text)) if len(text) < 20 else None
    detail = None if job_id is None else await call.services.jobs.view(job_id)
    if detail is None or detail.job.name != queue.job_name:
        raise _no_job(call)
    return detail


def _no_job(call: Call) -> NotFoundError:
    return NotFoundError(f"there is no such job {call.path['id'][:20]}")


# --- the service


async def version(call: Call) -> Reply:
    return Reply(200, f"jqmaster {__version__}, with the API of Fireworq\n".encode(), media_type=_TEXT)


async def settings(call: Call) -> Reply:
    """Return, as texts, the values of Fireworq's settings for which this master has an equivalent."""
    return _reply(
        {
            "config_refresh_interval": str(round(REFRESH_S * 1000)),
            "driver": "jqmaster",
            "queue_default": call.services.settings.fireworq_default_queue or "",
            "queue_default_max_workers": str(DEFAULT_MAX_WORKERS),
            "queue_default_polling_interval": str(DEFAULT_POLLING_INTERVAL_MS),
        }
    )


def _query(call: Call, *names: str) -> dict[str, str]:
    """Return the query parameters with these names. Ignore other parameters, as Fireworq does."""
    pairs = parse_qsl(call.query_string.decode("latin-1"), keep_blank_values=True)
    return {name: value for name, value in reversed(pairs) if name in names}


def _limit(query: Mapping[str, str]) -> int:
    text = query.get("limit", "")
    if not (text.isascii() and text.isdigit()):
        return _USUAL_PAGE
    return max(1, min(int(text[:9]), MAX_PAGE))
