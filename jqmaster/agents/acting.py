"""Tools that act. A tool that may act on more than one job first returns a preview. It acts only when it is
called again with the preview's confirmation."""

from collections.abc import Mapping
from typing import Any, Final

from jqmaster.agents.answers import from_job, only
from jqmaster.agents.confirmation import Foreseen
from jqmaster.agents.master import CallRefusedError, part
from jqmaster.agents.reading import FILTERS, JOB_ID, NAME
from jqmaster.agents.tool import CONFIRM, AgentTool, ArgumentError, ToolCall

_DONE: Final = ("id", "name", "state", "attempt", "run_at", "finished_at", "cause")
PAUSE_PREFIX: Final = "pause-"


async def _retry(call: ToolCall) -> dict[str, Any]:
    return await _act_on_jobs(call, "retry", "run again", default_state="failed")


async def _cancel(call: ToolCall) -> dict[str, Any]:
    return await _act_on_jobs(call, "cancel", "cancel")


async def _act_on_jobs(
    call: ToolCall, action: str, verb: str, default_state: str | None = None
) -> dict[str, Any]:
    """Act on the job that `job_id` names, or on all jobs that the filters select."""
    job_id, filters = (
        call.get("job_id"),
        {name: call.get(name) for name in FILTERS if call.get(name) is not None},
    )
    if (job_id is None) is not bool(filters):
        raise ArgumentError("give either job_id, or at least one filter such as name or failure_group")
    if job_id is not None:
        if call.get("confirm") is not None:
            raise ArgumentError("confirm: leave it out for a single job")
        job = await call.master.post(f"/api/jobs/{part(job_id)}/{action}")
        return {"done": True, **only(job, *_DONE, "revives")}
    if default_state is not None:
        filters.setdefault("state", default_state)
    request = {"action": action, "filter": filters}
    examples: list[Any] = []

    async def foresee() -> Foreseen:
        found = await call.master.post("/api/jobs/actions", {**request, "dry_run": True})
        examples[:] = [only(one, "id", "name", "state", "created_at") for one in found["examples"]]
        least = "" if found["is_exact"] else "at least "
        text = f"It would {verb} {least}{found['count']} jobs that match {filters}."
        return Foreseen(text, found["count"], found["is_exact"])

    async def act(foreseen: Foreseen, confirmed: int | None) -> dict[str, Any]:
        # More jobs may match by now, so limit the action to the number that was confirmed.
        bound = {} if confirmed is None else {"at_most": confirmed}
        begun = await call.master.post("/api/jobs/actions", {**request, **bound})
        return {
            "begun": True,
            **only(begun, "id", "action", "state", "matched", "at_most", "created_at"),
            "jobs": foreseen.count,
            "see": "It runs in the background. `jqmaster actions`, or the web UI, shows its progress.",
        }

    return await call.confirmed(foresee, act, from_job={"examples": examples})


async def _pause(call: ToolCall) -> dict[str, Any]:
    target = {
        name: call.get(name) for name in ("job_name", "tag", "constraint") if call.get(name) is not None
    }
    if len(target) != 1:
        raise ArgumentError("give exactly one of job_name, tag and constraint")
    if "value" in call.arguments:
        target["value"] = call.get("value")
    body = {**target, "reason": call.get("reason"), "duration_s": call.get("duration_s")}

    async def foresee() -> Foreseen:
        found = await call.master.post(
            "/api/constraints/preview", {"matcher": await _matcher_of(call), "limit": 1}
        )
        ends = f"for {body['duration_s']:g} s" if body["duration_s"] else "until somebody resumes it"
        text = (
            f"No more jobs of {target} would start {ends}. Jobs that wait now: {found['count']}. Running jobs "
            "continue."
        )
        return Foreseen(text, found["count"], found["is_exact"])

    async def act(foreseen: Foreseen, _: int | None) -> dict[str, Any]:
        made = await call.master.post(
            "/api/pauses", {key: one for key, one in body.items() if one is not None}
        )
        return {
            "done": True,
            "pause": made["name"],
            **only(made, "expires_at", "reason"),
            "jobs": foreseen.count,
        }

    return await call.confirmed(foresee, act)


async def _matcher_of(call: ToolCall) -> Mapping[str, Any]:
    """Return the matcher of the jobs that a pause would concern."""
    if (name := call.get("job_name")) is not None:
        return {"field": "name", "op": "eq", "value": name}
    if (tag := call.get("tag")) is not None:
        return {"field": "tags", "op": "eq", "value": tag}
    constraint = await call.master.get(f"/api/constraints/{part(call.get('constraint'))}")
    matcher: Mapping[str, Any] = constraint["matcher"]
    if "value" not in call.arguments:
        return matcher
    if constraint["key"] is None:
        raise ArgumentError("value: the constraint has no key, and so no values")
    return {"all": [matcher, {"field": constraint["key"], "op": "eq", "value": call.get("value")}]}


async def _resume(call: ToolCall) -> dict[str, Any]:
    name = call.get("pause")
    if not name.startswith(PAUSE_PREFIX):
        raise ArgumentError(
            f"pause: the name of a pause begins with {PAUSE_PREFIX}. To end the pause of a constraint, use "
            "put_constraint"
        )
    path = f"/api/constraints/{part(name)}"

    async def foresee() -> Foreseen:
        found = await call.master.get(path)
        waiting = found["usage"]["waiting"] or 0
        by = f" by {found['created_by']}" if found.get("created_by") else ""
        reason = f" Its reason: {found['reason']!r}." if found.get("reason") else ""
        text = f"It would end the pause{by} of {found['created_at']}. {waiting} jobs wait for it.{reason}"
        return Foreseen(text, waiting, found["usage"].get("is_exact", True), found["etag"])

    async def act(foreseen: Foreseen, _: int | None) -> dict[str, Any]:
        await call.master.call("DELETE", path, headers={"If-Match": f'"{foreseen.state}"'})
        return {"done": True, "ended": name, "jobs": foreseen.count}

    return await call.confirmed(foresee, act)


async def _put_constraint(call: ToolCall) -> dict[str, Any]:
    name, wanted = call.get("name"), call.get("constraint")
    path = f"/api/constraints/{part(name)}"
    present: dict[str, Any] = {}

    async def foresee() -> Foreseen:
        try:
            present.update(await call.master.get(path))
        except CallRefusedError as refused:
            if refused.status != 404:
                raise
        asked = {key: wanted[key] for key in ("matcher", "key") if wanted.get(key) is not None}
        found = await call.master.post("/api/constraints/preview", {**asked, "limit": 1})
        what = "replace" if present else "create"
        text = f"It would {what} the constraint {name}, which applies to {found['count']} waiting jobs now."
        return Foreseen(text, found["count"], found["is_exact"], present.get("etag", ""))

    async def act(foreseen: Foreseen, _: int | None) -> dict[str, Any]:
        condition = {"If-Match": f'"{foreseen.state}"'} if foreseen.state else {"If-None-Match": "*"}
        made = await call.master.call("PUT", path, body=wanted, headers=condition)
        return {"done": True, **only(made, "name", "enabled", "mode", "etag"), "jobs": foreseen.count}

    return await call.confirmed(foresee, act)


async def _run_definition(call: ToolCall) -> dict[str, Any]:
    answer = await call.master.post(f"/api/definitions/{part(call.get('definition'))}/run")
    return {"done": True, "job_id": answer["id"]}


async def _answer_challenge(call: ToolCall) -> dict[str, Any]:
    path = f"/api/jobs/{part(call.get('job_id'))}/challenges"
    request = call.get("request")
    if request is None:
        waiting = [one for one in (await call.master.get(path))["challenges"] if one["state"] == "processing"]
        if len(waiting) != 1:
            return {
                "nothing_done_yet": (
                    f"{len(waiting)} questions of this job wait for an answer. Choose one "
                    "with the argument request."
                ),
                "challenges": [
                    from_job(only(one, "request", "state", "opened_at", "due_at", "form"), ("form",))
                    for one in waiting
                ],
            }
        request = waiting[0]["request"]
    answer = {name: call.get(name) for name in ("choice", "comment", "values") if call.get(name) is not None}
    receipt = await call.master.post(f"{path}/{part(request)}/callback", answer)
    return {"done": True, "request": request, "receipt": receipt}


_JOBS: Final[Mapping[str, Any]] = {
    "job_id": {**JOB_ID, "description": "This one job, without a confirmation."},
    **FILTERS,
    "confirm": CONFIRM,
}
_TWICE: Final = "Call it twice: first without confirm to learn what it would do, then with confirm to do it."

ACTING: Final = (
    AgentTool(
        "retry", "Run jobs again",
        "Run one finished job again, or all jobs that match the filters. Only failed jobs match if you give "
        f"no state. For several jobs: {_TWICE}",
        _retry, _JOBS, scope="operate", subject="job_id", is_destructive=True,
    ),
    AgentTool(
        "cancel", "Cancel jobs",
        "Cancel one waiting or running job, or all jobs that match the filters. This cannot be undone. For "
        f"several jobs: {_TWICE}",
        _cancel, _JOBS, scope="operate", subject="job_id", is_destructive=True,
    ),
    AgentTool(
        "pause", "Pause jobs",
        f"Start no more jobs of a name, with a tag, of a constraint, or of one value of its key. Running jobs go on. "
        f"{_TWICE}",
        _pause,
        {
            "job_name": {**NAME, "description": "The jobs of this name."},
            "tag": {**NAME, "description": "The jobs with this tag."},
            "constraint": {**NAME, "description": "The jobs of this constraint."},
            "value": {
                "type": ["string", "number", "boolean", "null"],
                "description": "Only jobs with this value of the constraint's key.",
            },
            "reason": {"type": "string", "minLength": 3, "maxLength": 500, "description": "Why, for people."},
            "duration_s": {
                "type": "number", "exclusiveMinimum": 0,
                "description": (
                    "Seconds until the pause ends by itself. Without this argument, it lasts "
                    "until somebody resumes it."
                ),
            },
            "confirm": CONFIRM,
        },
        ("reason",), scope="operate", is_destructive=True,
    ),
    AgentTool(
        "resume", "End a pause",
        f"End a pause, so that its jobs start again. {_TWICE}",
        _resume,
        {
            "pause": {**NAME, "description": "Name of the pause, such as pause-1f2e3d4c: see show_constraint."},
            "confirm": CONFIRM,
        },
        ("pause",), scope="operate", subject="pause", is_destructive=True,
    ),
    AgentTool(
        "put_constraint", "Create or replace a constraint",
        "Create a constraint, or replace an existing one completely. Try it with preview_constraint first. "
        f"{_TWICE}",
        _put_constraint,
        {
            "name": {**NAME, "description": "Name of the constraint."},
            "constraint": {
                "type": "object",
                "properties": {"matcher": {"type": "object"}, "key": {"type": "string"}},
                "required": ["matcher"],
                "description": (
                    "The whole constraint. Only matcher is required. Other fields include key, "
                    "concurrency, rate {limit, period_s}, paused, reason and mode (enforce, or "
                    "shadow to only count). search_docs explains all fields."
                ),
            },
            "confirm": CONFIRM,
        },
        ("name", "constraint"), scope="operate", subject="name", is_destructive=True,
    ),
    AgentTool(
        "run_definition", "Run a definition now",
        "Start the job of a definition once, at once, regardless of its schedule.",
        _run_definition,
        {"definition": {**NAME, "description": "Name of the definition."}},
        ("definition",), scope="operate", subject="definition",
    ),
    AgentTool(
        "answer_challenge", "Answer a question of a job",
        "Answer a question that a job asks, in the name of a person. Ask the person first. An answer cannot "
        "be undone.",
        _answer_challenge,
        {
            "job_id": JOB_ID,
            "request": {**NAME, "description": "ID of the question, if the job waits for several answers."},
            "choice": {**NAME, "description": "The choice, as the form names it."},
            "comment": {"type": "string", "maxLength": 4_000, "description": "A comment for the record."},
            "values": {"type": "object", "description": "Values of the other fields of the form, by their names."},
        },
        ("job_id",), scope="operate", subject="job_id", is_destructive=True,
    ),
)  # fmt: skip
