"""Targets over HTTP."""

from typing import Final

from jqmaster.api.http.endpoint import Call, Reply
from jqmaster.api.http.preconditions import check_name, etag_header, precondition
from jqmaster.api.targets import views
from jqmaster.api.targets.schemas import TargetRequest, TargetTestRequest
from jqmaster.domain.targets.target import is_pattern
from jqmaster.service.targets.samples import Sample
from jqmaster.store.identity.audit import encode_entry

ARGUMENT: Final = frozenset({"argument"})


async def list_targets(call: Call) -> Reply:
    call.query()
    found = await call.services.targets.all()
    return Reply(200, {"targets": [views.target_view(shown, call.content) for shown in found]})


async def get(call: Call) -> Reply:
    call.query()
    return await _shown(call, 200)


async def put(call: Call) -> Reply:
    name = call.path["name"]
    demands = precondition(call)
    request = await call.read(TargetRequest)
    check_name(request.name, name)
    is_new = await call.services.target_editor.put(name, request.model_dump(), who=call.who, demands=demands)
    return await _shown(call, 201 if is_new else 200)


async def delete(call: Call) -> Reply:
    await call.services.target_editor.delete(call.path["name"], who=call.who, demands=precondition(call))
    return Reply(204)


async def test(call: Call) -> Reply:
    name = call.path["name"]
    request = await call.read(TargetTestRequest, ARGUMENT)
    job_name = request.job_name
    if job_name is None:
        stored = await call.services.targets.stored(name)
        listed = [one for one in stored.target.names if not is_pattern(one)]
        job_name = listed[0] if listed else "test"
    exchange = await call.services.target_samples.send(name, Sample(job_name, request.argument))
    after = {"job_name": job_name, "result": exchange.meaning}
    await call.services.audit_writer.write(
        encode_entry(who=call.who, action="target.test", target=name, before=None, after=after)
    )
    return Reply(200, views.test_view(exchange))


async def _shown(call: Call, status: int) -> Reply:
    shown = await call.services.targets.get(call.path["name"])
    return Reply(status, views.target_view(shown, call.content), etag_header(shown.stored.etag))
