"""Lists of jobs over HTTP, and counts of the jobs that a filter selects."""

import json
import re
from typing import Final, get_args

from jqmaster.api.http.endpoint import Call, Reply
from jqmaster.api.http.query import query_error, whole_number
from jqmaster.api.http.searches import search
from jqmaster.api.jobs import views
from jqmaster.api.schemas import query_instant
from jqmaster.domain.ids import is_id
from jqmaster.domain.jobs.job import Cause, JobState, StateGroup
from jqmaster.domain.jobs.job_filter import JobFilter
from jqmaster.domain.matching.checks import MatcherError
from jqmaster.domain.matching.matcher import Matcher, parse_matcher
from jqmaster.errors import FieldError, InvalidError
from jqmaster.service.jobs.excerpts import ExcerptPart
from jqmaster.service.jobs.reader import ListOrder

FILTERS: Final = (
    "state", "state_group",
    "name", "tag", "batch", "worker", "q", "cause", "created_after", "created_before", "finished_after",
    "finished_before", "text", "failure_group", "matcher", "min_attempt", "min_duration", "max_duration",
)  # fmt: skip
PARTS: Final[tuple[ExcerptPart, ...]] = get_args(ExcerptPart)
_SECONDS: Final = re.compile(r"\d{1,9}(\.\d{1,9})?", re.ASCII)
ORDERS: Final[tuple[ListOrder, ...]] = get_args(ListOrder)
CAUSES: Final = tuple(cause.name.lower() for cause in Cause if cause is not Cause.NONE)
MAX_PAGE: Final = 500
_GROUP: Final = re.compile(r"[0-9a-f]{16}", re.ASCII)


@search
async def list_jobs(call: Call) -> Reply:
    query = call.query(*FILTERS, "order", "include", "limit", "cursor")
    limit = whole_number(query, "limit", default=50, least=1, most=MAX_PAGE)
    found = await call.services.jobs.page(
        await _with_merged(call, job_filter(call, query)),
        limit=limit,
        cursor=query.get("cursor"),
        order=_order(query),
    )
    excerpts = await call.services.excerpts.of(found.page.jobs, _included(query), call.content)
    return Reply(
        200,
        {
            "jobs": [views.listed_job(job, excerpts.get(job.id)) for job in found.page.jobs],
            "next_cursor": found.page.cursor,
            "counts": {str(state): count for state, count in found.counts.items()},
            "looked_at": found.page.looked_at,
            "is_partial": found.page.is_partial,
        },
    )


@search
async def count_jobs(call: Call) -> Reply:
    wanted = await _with_merged(call, job_filter(call, call.query(*FILTERS)))
    counted = await call.services.jobs.count(wanted)
    return Reply(
        200,
        {
            "count": sum(one.count for one in counted.values()),
            "is_exact": all(one.is_exact for one in counted.values()),
            "states": {
                str(state): {"count": one.count, "is_exact": one.is_exact} for state, one in counted.items()
            },
        },
    )


async def _with_merged(call: Call, wanted: JobFilter) -> JobFilter:
    return await call.services.failures.reader.of_group(wanted)


def _order(query: dict[str, str]) -> ListOrder | None:
    asked = query.get("order")
    if asked is None:
        return None
    for order in ORDERS:
        if asked == order:
            return order
    raise query_error("order", f"one of {', '.join(ORDERS)}")


def _included(query: dict[str, str]) -> set[ExcerptPart]:
    asked = set(filter(None, query.get("include", "").split(",")))
    included = {part for part in PARTS if part in asked}
    if len(included) < len(asked):
        raise query_error("include", f"one or more of {', '.join(PARTS)}, separated by commas")
    return included


def job_filter(call: Call, query: dict[str, str]) -> JobFilter:
    """Return the filter of the query. Raises InvalidError. Raises ForbiddenError if the filter selects by content
    that the caller may not see."""
    wanted = _filter_of(query)
    if wanted.text is not None:
        call.content.check_error_text(("query", "text"))
    if wanted.failure_group is not None:
        call.content.check_failure_group(("query", "failure_group"))
    if wanted.matcher is not None:
        call.content.check_matcher(wanted.matcher.document, ("query", "matcher"))
    return wanted


def _filter_of(query: dict[str, str]) -> JobFilter:
    """Return the filter of these values. Raises InvalidError."""
    state, cause, group = query.get("state"), query.get("cause"), query.get("failure_group")
    batch = query.get("batch")
    if state is not None and state not in set(JobState):
        raise query_error("state", f"one of {', '.join(JobState)}")
    states = query.get("state_group")
    if states is not None and states not in set(StateGroup):
        raise query_error("state_group", f"one of {', '.join(StateGroup)}")
    if cause is not None and cause not in CAUSES:
        raise query_error("cause", f"one of {', '.join(CAUSES)}")
    if group is not None and not _GROUP.fullmatch(group):
        raise query_error("failure_group", "the ID of a group: 16 hexadecimal digits")
    if batch is not None and not is_id(batch):
        raise query_error("batch", "the ID of a batch")
    return JobFilter(
        state=JobState(state) if state else None,
        group=StateGroup(states) if states else None,
        name=query.get("name"),
        tag=query.get("tag"),
        batch=batch,
        worker=query.get("worker"),
        q=query.get("q"),
        cause=Cause[cause.upper()] if cause else None,
        created_after_ms=query_instant(query, "created_after"),
        created_before_ms=query_instant(query, "created_before"),
        finished_after_ms=query_instant(query, "finished_after"),
        finished_before_ms=query_instant(query, "finished_before"),
        text=query.get("text") or None,
        failure_group=group,
        matcher=_matcher(query),
        min_attempt=whole_number(query, "min_attempt", default=0, least=1, most=999_999_999) or None,
        min_duration_ms=_milliseconds(query, "min_duration"),
        max_duration_ms=_milliseconds(query, "max_duration"),
    )


def _matcher(query: dict[str, str]) -> Matcher | None:
    text = query.get("matcher")
    if text is None:
        return None
    try:
        return parse_matcher(json.loads(text))
    except MatcherError as error:
        raise InvalidError(
            f"matcher: {error}", errors=[FieldError(("query", "matcher", *error.loc), error.msg)]
        ) from None
    except (ValueError, RecursionError):
        raise query_error("matcher", "a matcher in JSON") from None


def _milliseconds(query: dict[str, str], name: str) -> int | None:
    text = query.get(name)
    if text is None:
        return None
    if not _SECONDS.fullmatch(text):
        raise query_error(name, "seconds, such as 1.5")
    return round(float(text) * 1000)
