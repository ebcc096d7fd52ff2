"""A job before it is enqueued, over HTTP: is it valid, and what would limit it?"""

from jqmaster.api.endpoint import Call, Reply
from jqmaster.api.job_schemas import JobRequest
from jqmaster.api.jobs import ARGUMENT, check_argument
from jqmaster.domain.ids import new_id
from jqmaster.service.constraint_documents import describe_limits


async def preview(call: Call) -> Reply:
    request = await call.read(JobRequest, ARGUMENT)
    spec = request.to_spec(request.id or new_id())
    check_argument(call, spec)
    found = await call.services.constraints.applying(spec)
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
