"""Tools that only read. They show what is wrong, which jobs exist, and why jobs wait or fail."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from jqmaster.agents.answers import Place, from_job, only, page
from jqmaster.agents.documents import search
from jqmaster.agents.master import CallRefusedError, part
from jqmaster.agents.tool import NEXT, AgentTool, ToolCall

JOB_ID: Final[Mapping[str, Any]] = {
    "type": "string",
    "minLength": 1,
    "maxLength": 64,
    "description": "ID of a job, as find_jobs shows it.",
}
NAME: Final[Mapping[str, Any]] = {"type": "string", "minLength": 1, "maxLength": 200}
STATES: Final = (
    "scheduled", "ready", "running", "awaiting_callback", "retrying", "awaiting_jobs", "succeeded", "discarded",
    "failed", "canceled", "skipped",
)  # fmt: skip
CAUSES: Final = (
    "error", "timeout", "lost", "expired", "canceled", "undecodable", "invalid_argument", "callback_timeout",
    "not_ready", "dependency", "superseded",
)  # fmt: skip
_SPAN: Final[Mapping[str, Any]] = {
    "enum": ["1h", "3h", "6h", "24h", "7d", "30d"],
    "description": "Period up to now. Default: 1h.",
}
_INSTANT: Final = "An instant of ISO 8601, such as 2026-11-21T04:30:00Z."
FILTERS: Final[Mapping[str, Any]] = {
    "state": {"enum": list(STATES), "description": "Only jobs in this state."},
    "name": {**NAME, "description": "Only jobs of exactly this name."},
    "tag": {**NAME, "description": "Only jobs with this tag."},
    "batch": {**JOB_ID, "description": "Only members of the batch with this ID."},
    "cause": {
        "enum": list(CAUSES),
        "description": "Only jobs that ended with this cause.",
    },
    "failure_group": {
        "type": "string",
        "pattern": "^[0-9a-f]{16}$",
        "description": "Only jobs of this failure group. The tool failures shows the groups.",
    },
    "text": {**NAME, "description": "Only jobs with this text in their last error message."},
    "created_after": {
        "type": "string",
        "description": f"Only jobs created at this time or later. {_INSTANT}",
    },
    "finished_after": {
        "type": "string",
        "description": f"Only jobs that ended at this time or later. {_INSTANT}",
    },
}
_JOB_FIELDS: Final = (
    "id", "name", "state", "attempt", "max_retry", "priority", "created_at", "run_at", "started_at", "finished_at",
    "cause", "worker_id",
)  # fmt: skip
_PAGE: Final = 25
_ROWS: Final = 24
_COUNTS: Final = ("pushed", "succeeded", "failed", "retried", "canceled", "skipped")
LOG_LINES: Final = 30


async def _overview(call: ToolCall) -> dict[str, Any]:
    stats = await call.master.get("/api/stats")
    names = await call.master.get("/api/names", {"span": "1h", "sort": "ready", "limit": 10})
    return {
        **only(
            stats, "at", "counts", "oldest_wait_ms", "rates", "workers", "masters", "store", "duty_faults"
        ),
        "names_with_most_ready_jobs": [
            only(one, "name", "ready", "pushed", "succeeded", "failed", "success_share")
            for one in names["names"]
        ],
    }


async def _health(call: ToolCall) -> dict[str, Any]:
    found = await call.master.get("/api/health")
    findings = [only(one, "code", "severity", "text", "command", "jobs") for one in found["findings"]]
    return {**only(found, "at", "status", "text", "command"), "findings": findings}


async def _find_jobs(call: ToolCall) -> dict[str, Any]:
    place = Place.of(call.get("next"))
    query = {name: call.get(name) for name in FILTERS}
    query |= {"order": call.get("order", "newest"), "limit": _PAGE, "cursor": place.cursor}
    found = await call.master.get("/api/jobs", {**query, "include": "error"})
    jobs = [from_job(only(one, *_JOB_FIELDS, "tags", "error"), ("tags", "error")) for one in found["jobs"]]
    return page({}, "jobs", jobs, place=place, next_cursor=found["next_cursor"])


async def _show_job(call: ToolCall) -> dict[str, Any]:
    path = f"/api/jobs/{part(call.get('job_id'))}"
    job = await call.master.get(path)
    shown = only(
        job, *_JOB_FIELDS, "timeout", "expires_at", "argument_bytes", "argument_hidden", "requires", "constraints",
        "definition", "batch", "unique", "after", "dependents_count", "skipped_by", "has_result", "result_hidden",
    )  # fmt: skip
    data = only(job, "argument", "headers", "tags", "result", "progress")
    data["attempts"] = [
        {key: value for key, value in one.items() if key != "changes"} for one in job["attempts"][-5:]
    ]
    try:
        log = await call.master.get(f"{path}/logs", {"tail": call.get("log_lines", LOG_LINES)})
        data["log"] = [
            f"{one.get('at', '')} {one.get('level', '')} {one.get('text', '')}" for one in log["entries"]
        ]
    except CallRefusedError as refused:
        # Show why the log is missing: the caller may not see logs, or the job has no log.
        shown["log"] = refused.text
    return from_job({**shown, **data}, data)


async def _why(call: ToolCall) -> dict[str, Any]:
    answer = await call.master.get(f"/api/jobs/{part(call.get('job_id'))}/why")
    uses = (
        "name",
        "mode",
        "passes",
        "kinds",
        "concurrency",
        "running",
        "rate",
        "starts",
        "waiting",
        "opens_at",
    )
    return {
        **only(answer, "state", "as_of"),
        "verdicts": [only(one, "code", "text") for one in answer["verdicts"]],
        "constraints": [
            from_job(only(one, *uses, "key", "key_value"), ("key_value",)) for one in answer["constraints"]
        ],
    }


async def _failures(call: ToolCall) -> dict[str, Any]:
    place = Place.of(call.get("next"))
    query = {"name": call.get("name"), "version": call.get("version"), "limit": _PAGE, "cursor": place.cursor}
    if not call.get("with_ignored", False):
        query["ignored"] = "false"
    found = await call.master.get("/api/failures", query)
    fields = (
        "id",
        "name",
        "cause",
        "error_type",
        "count",
        "first_seen_at",
        "last_seen_at",
        "example_job_id",
        "marks",
    )
    groups = [
        from_job(
            {
                **only(one, *fields, "versions", "message"),
                "in_this_hour": one["trend"][-1],
                "in_24_hours": sum(one["trend"]),
            },
            ("message", "error_type"),
        )
        for one in found["groups"]
    ]
    return page({}, "groups", groups, place=place, next_cursor=found["next_cursor"])


async def _history(call: ToolCall) -> dict[str, Any]:
    found = await call.master.get(
        "/api/stats/history", {"name": call.get("name"), "span": call.get("span", "1h")}
    )
    points = found["points"]
    size = max(1, -(-len(points) // _ROWS))
    rows = [_row(points[at : at + size]) for at in range(0, len(points), size)]
    return {**only(found, "name", "span"), "row_s": found["step_s"] * size, "rows": rows}


def _row(points: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge several points into one: add up the counts, and take the maximum of each other figure."""
    row: dict[str, Any] = {"at": points[0]["at"]}
    for word in _COUNTS:
        if count := sum(point[word] for point in points):
            row[word] = count
    backlogs = [point["backlog"] for point in points if point["backlog"] is not None]
    row["most_ready"] = max(backlogs, default=None)
    for word in ("wait", "run"):
        row[f"{word}_p95_ms"] = max((point[word]["p95_ms"] for point in points if point[word]), default=None)
    return row


async def _show_constraint(call: ToolCall) -> dict[str, Any]:
    name = call.get("name")
    if name is None:
        found = (await call.master.get("/api/constraints"))["constraints"]
        place = Place.of(call.get("next"))
        fields = (
            "name",
            "enabled",
            "mode",
            "matcher",
            "key",
            "concurrency",
            "rate",
            "paused",
            "reason",
            "expires_at",
        )
        items = [
            {
                **only(one, *fields),
                "usage": only(one["usage"], "waiting", "running", "held", "next_opening_at"),
            }
            for one in found
        ]
        return page({}, "constraints", items, place=place, next_cursor=None)
    detail = await call.master.get(f"/api/constraints/{part(name)}", {"value": call.get("value")})
    data = only(detail, "top_keys", "asked", "holders")
    return from_job(detail, data)


async def _preview_constraint(call: ToolCall) -> dict[str, Any]:
    asked = {name: call.get(name) for name in ("matcher", "key") if call.get(name) is not None}
    found = await call.master.post("/api/constraints/preview", {**asked, "limit": 5})
    answer = only(found, "count", "is_exact", "without_key", "distinct_keys")
    answer["from_job"] = {
        "examples": [only(one, "id", "name", "state", "created_at") for one in found["examples"]],
        "keys": found["keys"],
    }
    limits = {name: call.get(name) for name in ("concurrency", "rate") if call.get(name) is not None}
    if limits:
        replay = await call.master.post("/api/constraints/preview/last-hour", {**asked, **limits})
        fields = (
            "from",
            "to",
            "started",
            "held",
            "held_now",
            "most_held",
            "p95_ms",
            "longest_ms",
            "is_whole",
        )
        answer["in_the_last_hour"] = only(replay, *fields)
    return answer


async def _next_runs(call: ToolCall) -> dict[str, Any]:
    name = call.get("definition")
    if name is not None:
        path = f"/api/definitions/{part(name)}"
        shown = await call.master.get(path)
        runs = await call.master.get(f"{path}/runs", {"limit": 10})
        fields = (
            "name",
            "kind",
            "enabled",
            "reason",
            "schedule",
            "event_type",
            "time_zone",
            "next_due_at",
            "overlap",
        )
        answer: dict[str, Any] = {**only(shown, *fields), "job": shown["job"]["name"], "runs": runs["runs"]}
        if shown["kind"] == "time":
            asked = only(shown, "kind", "schedule", "time_zone", "starts_at", "ends_at")
            asked = {key: value for key, value in asked.items() if value is not None}
            coming = await call.master.post("/api/definitions/preview", {**asked, "count": 10})
            answer["next"] = [one["due_at"] for one in coming["instants"]]
        return answer
    place = Place.of(call.get("next"))
    found = await call.master.get("/api/definitions", {"limit": 100, "cursor": place.cursor})
    items = [
        {
            **only(one, "name", "kind", "enabled", "next_due_at", "time_zone"),
            "last": only(one["last_run"], "due_at", "outcome", "reason") if one["last_run"] else None,
        }
        for one in found["definitions"]
    ]
    return page({}, "definitions", items, place=place, next_cursor=found["next_cursor"])


async def _search_docs(call: ToolCall) -> dict[str, Any]:
    place = Place.of(call.get("next"))
    # Search in a thread, because reading all pages for the first time takes a third of a second.
    found = await asyncio.to_thread(search, call.get("query"))
    if found is None:
        return {
            "found": (
                "The documents are not installed with this copy of jqmaster. They are in the docs "
                "folder of its repository. Begin with docs/index.md."
            )
        }
    return page({}, "sections", found, place=place, next_cursor=None)


READING: Final = (
    AgentTool(
        "health", "Health of the queue",
        "Tell whether the queue is healthy: a verdict, the problems, the waiting work, the likely cause and "
        "the next step. Begin with this tool.",
        _health,
    ),
    AgentTool(
        "overview", "Overview",
        "Show the current figures of the whole queue: jobs by state, rates per second, workers, masters, store, and "
        "the names with the most ready jobs.",
        _overview,
    ),
    AgentTool(
        "find_jobs", "Find jobs",
        "List jobs that match all given filters, the newest first. Arguments of jobs are not in the list.",
        _find_jobs,
        {
            **FILTERS,
            "order": {"enum": ["newest", "oldest"], "description": "Default: newest."},
            "next": NEXT,
        },
        subject="name",
    ),
    AgentTool(
        "show_job", "Show a job",
        "Show one job: its state, argument, last attempts with their errors, result, and the end of its log.",
        _show_job,
        {
            "job_id": JOB_ID,
            "log_lines": {
                "type": "integer", "minimum": 1, "maximum": 200,
                "description": f"Log lines to show, from the end. Default: {LOG_LINES}.",
            },
        },
        ("job_id",), subject="job_id",
    ),
    AgentTool(
        "why", "Why a job does not run",
        "Explain why a job is not running. The first verdict is what has to change first.",
        _why, {"job_id": JOB_ID}, ("job_id",), subject="job_id",
    ),
    AgentTool(
        "failures", "Failures",
        "List the groups of final failures, the latest first. Each has its message, count, first and last "
        "time, an example, and the versions of the workers that reported it. marks: new (first seen within "
        "the last hour), regressed (seen again after a day without it).",
        _failures,
        {
            "name": {**NAME, "description": "Only failures of jobs of this name."},
            "version": {**NAME, "description": (
                "Only failures that were last seen on workers of this "
                "version."
            )},
            "with_ignored": {"type": "boolean", "description": (
                "Also show failures that people chose to "
                "ignore."
            )},
            "next": NEXT,
        },
        subject="name",
    ),
    AgentTool(
        "history", "History",
        "Show counts over time: pushed, succeeded, failed, retried, the most ready jobs, and 95th percentiles of "
        "wait and run times.",
        _history,
        {"name": {**NAME, "description": "Only jobs of this name."}, "span": _SPAN},
        subject="name",
    ),
    AgentTool(
        "show_constraint", "Show constraints and pauses",
        "Show a constraint: its limits, its usage, the waiting jobs and the jobs that hold slots. Without a "
        "name, list all constraints and pauses. The names of pauses begin with pause-.",
        _show_constraint,
        {
            "name": {**NAME, "description": "Name of a constraint or pause."},
            "value": {**NAME, "description": "Also show this value of its key."},
            "next": NEXT,
        },
        subject="name",
    ),
    AgentTool(
        "preview_constraint", "Preview a constraint",
        "Tell which waiting jobs a constraint would apply to. With limits, also tell which jobs it would "
        "have held in the last hour. Changes nothing.",
        _preview_constraint,
        {
            "matcher": {
                "type": "object",
                "description": 'Selects the jobs, such as {"field": "name", "op": "glob", "value": "mail.*"}.',
            },
            "key": {**NAME, "description": (
                "Path in the job, such as argument.tenant. Each value at this "
                "path has its own limits."
            )},
            "concurrency": {"type": "integer", "minimum": 1, "description": "Most jobs at once."},
            "rate": {
                "type": "object",
                "properties": {
                    "limit": {"type": "integer", "minimum": 1},
                    "period_s": {"type": "number", "exclusiveMinimum": 0},
                },
                "required": ["limit", "period_s"],
                "additionalProperties": False,
                "description": "Most starts within any period of this many seconds.",
            },
        },
        ("matcher",),
    ),
    AgentTool(
        "next_runs", "Next runs of definitions",
        "List the definitions with their next and last instants. If you name a definition, show its next "
        "ten instants and its last ten run records.",
        _next_runs,
        {"definition": {**NAME, "description": "Name of a definition."}, "next": NEXT},
        subject="definition",
    ),
    AgentTool(
        "search_docs", "Search the documents",
        "Search the documents of jqmaster for words, and return the sections that fit best.",
        _search_docs,
        {
            "query": {"type": "string", "minLength": 2, "maxLength": 200, "description": "A few words."},
            "next": NEXT,
        },
        ("query",),
    ),
)  # fmt: skip
