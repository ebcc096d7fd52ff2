"""Constraints over HTTP."""

import json
from typing import Any, Final, TypeVar

from jqmaster.api.constraints import views
from jqmaster.api.constraints.preview_schemas import PreviewRequest
from jqmaster.api.constraints.schemas import ConstraintRequest, PauseRequest, ValueRequest
from jqmaster.api.encoding.envelopes import read_map
from jqmaster.api.encoding.json_bridge import json_to_msgpack
from jqmaster.api.http.endpoint import Call, Reply, check
from jqmaster.api.http.preconditions import check_name, etag_header, precondition
from jqmaster.api.jobs.handlers import ARGUMENT, UNSERVED_NAMES, check_argument
from jqmaster.api.jobs.schemas import JobRequest
from jqmaster.api.schemas import Request
from jqmaster.domain.ids import new_id
from jqmaster.errors import ForbiddenError, InvalidError, TooLargeError, UnparsableError
from jqmaster.service.constraints.documents import describe_limits, limits_of
from jqmaster.service.constraints.reader import AskedValue

# Maximum size of the body of a constraint. The limit is low because every master keeps all constraints in memory,
# and reads all of them again after each change.
MAX_CONSTRAINT_BYTES: Final = 256 * 1024
_NIL: Final = b"\xc0"

_ModelT = TypeVar("_ModelT", bound=Request)


async def list_constraints(call: Call) -> Reply:
    call.query()
    found = await call.services.constraints.all()
    return Reply(
        200,
        {
            "constraints": [
                {**views.constraint_view(stored, call.content), "usage": views.usage_view(usage)}
                for stored, usage in found
            ]
        },
    )


async def get(call: Call) -> Reply:
    text = call.query("value").get("value")
    asked = None if text is None else AskedValue(_value_of(call, text))
    detail = await call.services.constraints.get(call.path["name"], asked, call.content)
    return Reply(200, views.constraint_detail(detail, call.content), etag_header(detail.stored.etag))


async def put(call: Call) -> Reply:
    name = call.path["name"]
    demands = precondition(call)
    request = await _read(call, ConstraintRequest)
    check_name(request.name, name)
    stored, is_new = await call.services.constraint_editor.put(
        name, request.model_dump(), call.who, call.content, demands
    )
    return Reply(
        201 if is_new else 200, views.constraint_view(stored, call.content), etag_header(stored.etag)
    )


async def put_value(call: Call) -> Reply:
    demands = precondition(call)
    request = await _read(call, ValueRequest)
    limits = limits_of(request.model_dump())
    stored = await call.services.constraint_editor.put_value(
        call.path["name"], request.addressed(), limits, call.who, call.content, demands=demands
    )
    return Reply(200, views.constraint_view(stored, call.content), etag_header(stored.etag))


async def pause(call: Call) -> Reply:
    request = await _read(call, PauseRequest)
    stored = await call.services.pauses.begin(
        request.to_target(),
        reason=request.reason,
        duration_s=request.duration_s,
        who=call.who,
        access=call.content,
    )
    fields = etag_header(stored.etag)
    if request.job_name is not None and await call.services.contracts.unserved([request.job_name]):
        fields += ((UNSERVED_NAMES, request.job_name.encode()),)
    return Reply(201, views.constraint_view(stored, call.content), fields)


async def delete(call: Call) -> Reply:
    await call.services.constraint_editor.delete(call.path["name"], call.who, precondition(call))
    return Reply(204)


async def preview(call: Call) -> Reply:
    request = await _read(call, PreviewRequest)
    overrides = [one.model_dump() for one in request.overrides]
    found = await call.services.constraints.preview(
        request.matcher,
        request.key,
        request.limit,
        call.content,
        who=call.who,
        most_per_minute=call.services.settings.previews_per_minute,
        overrides=overrides,
        weight=request.weight.model_dump() if request.weight else None,
        least_limit=request.least_limit(),
    )
    return Reply(200, views.preview_view(found, call.content, len(overrides)))


async def replay(call: Call) -> Reply:
    """Return a `ReplayAnswer`: the jobs that a constraint would have held back in the last hour."""
    request = await _read(call, ConstraintRequest)
    found = await call.services.replays.last_hour(
        request.model_dump(),
        call.content,
        who=call.who,
        most_per_minute=call.services.settings.previews_per_minute,
    )
    return Reply(200, views.replay_view(found, call.content))


async def preview_job(call: Call) -> Reply:
    """Return a `JobPreview`. Raise InvalidError if the job is not valid."""
    request = await call.read(JobRequest, ARGUMENT)
    spec = request.to_spec(request.id or new_id())
    check_argument(call, spec)
    if not call.content.for_name(spec.name).is_granted and (spec.argument != _NIL or spec.headers):
        # Refuse argument and headers from callers that may not see job content: the answer would show them key
        # values, which are job content.
        raise ForbiddenError(
            "callers that may not see job content must preview a job without argument and headers",
            code="content_hidden",
        )
    found = await call.services.constraints.applying(spec, call.content)
    checks_argument = call.services.settings.check_arguments != "off"
    misfits = await call.services.contracts.misfits(spec) if checks_argument else []
    return Reply(
        200,
        {
            "constraints": [
                {
                    "name": one.constraint.name,
                    "mode": str(one.constraint.mode),
                    "key": str(one.constraint.key) if one.constraint.key else None,
                    "key_value": one.key_text,
                    "limits": describe_limits(one.limits),
                    "max_backlog": one.constraint.max_backlog,
                }
                for one in found
            ],
            "checks_argument": checks_argument,
            "misfits": [{"loc": list(error.loc), "msg": error.msg} for error in misfits],
        },
    )


async def _read(call: Call, model: type[_ModelT]) -> _ModelT:
    body = await call.body()
    if len(body) > MAX_CONSTRAINT_BYTES:
        raise TooLargeError(f"a constraint may have at most {MAX_CONSTRAINT_BYTES} bytes")
    return check(model, read_map(body, limits=call.limits.scan))


def _value_of(call: Call, text: str) -> Any:
    """Parse the text as JSON. If the text is not JSON, return it unchanged: people type `acme` or `42`, while
    programs may send quoted JSON."""
    try:
        json.loads(text)
        return read_map(json_to_msgpack(b'{"value":' + text.encode() + b"}"), limits=call.limits.scan)[
            "value"
        ]
    except (ValueError, RecursionError, UnparsableError, InvalidError, TooLargeError):
        return text
