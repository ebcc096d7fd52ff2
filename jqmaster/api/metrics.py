"""Metrics over HTTP."""

from jqmaster.api.endpoint import Call, Reply
from jqmaster.service.metrics import CONTENT_TYPE


async def metrics(call: Call) -> Reply:
    call.query()
    return Reply(200, await call.services.metrics.text(), media_type=CONTENT_TYPE.encode())
