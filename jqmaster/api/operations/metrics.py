"""Metrics over HTTP."""

from jqmaster.api.http.endpoint import Call, Reply
from jqmaster.service.operations.metrics import CONTENT_TYPE


async def metrics(call: Call) -> Reply:
    call.query()
    return Reply(200, await call.services.metrics.text(), media_type=CONTENT_TYPE.encode())
