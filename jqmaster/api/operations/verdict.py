"""The verdict on the health of the queue, over HTTP."""

from jqmaster.api.http.endpoint import Call, Reply
from jqmaster.domain.instant import iso_or_none


async def get_verdict(call: Call) -> Reply:
    call.query()
    at_ms, verdict = await call.services.health.verdict(call.content)
    return Reply(
        200,
        {
            "at": iso_or_none(at_ms),
            "status": verdict.status,
            "text": verdict.text,
            "command": verdict.command,
            "findings": [
                {
                    "key": one.key,
                    "code": one.code,
                    "severity": one.severity,
                    "text": one.text,
                    "command": one.command,
                    "jobs": one.jobs,
                    "figures": dict(one.figures),
                }
                for one in verdict.findings
            ],
        },
    )
