"""A job before it is enqueued, over HTTP: is it valid, and what would limit it?"""

from typing import Final

from jqmaster.api.http.endpoint import Call, Reply
from jqmaster.api.jobs.handlers import ARGUMENT, check_argument
from jqmaster.api.jobs.schemas import JobRequest
from jqmaster.domain.ids import new_id
from jqmaster.errors import ForbiddenError
from jqmaster.service.constraints.documents import describe_limits

_NIL: Final = b"\xc0"


async def preview(call: Call) -> Reply:
    request = await call.read(JobRequest, ARGUMENT)
    spec = request.to_spec(request.id or new_id())
    check_argument(call, spec)
    if not call.content.for_name(spec.name).is_granted and (spec.argument != _NIL or spec.headers):
        # Which values constraints tell apart is content too.
        raise ForbiddenError(
            "callers that may not see job content must preview a job without argument and headers",
            code="content_hidden",
        )
    found = await call.services.constraints.applying(spec, call.content)
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
            ]
        },
    )
