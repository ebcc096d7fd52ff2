"""Notices over HTTP."""

from jqmaster.api.http.endpoint import Call, Reply
from jqmaster.api.http.preconditions import check_name, etag_header, precondition
from jqmaster.api.notices import views
from jqmaster.api.notices.schemas import AcknowledgeRequest, MuteNoticeRequest, NoticeRequest


async def list_notices(call: Call) -> Reply:
    call.query()
    found = await call.services.notices.all()
    return Reply(200, {"notices": [views.notice_view(shown, call.content) for shown in found]})


async def get(call: Call) -> Reply:
    call.query()
    return await _shown(call, 200)


async def put(call: Call) -> Reply:
    name = call.path["name"]
    demands = precondition(call)
    request = await call.read(NoticeRequest)
    check_name(request.name, name)
    is_new = await call.services.notice_editor.put(name, request.model_dump(), who=call.who, demands=demands)
    return await _shown(call, 201 if is_new else 200)


async def delete(call: Call) -> Reply:
    await call.services.notice_editor.delete(call.path["name"], who=call.who, demands=precondition(call))
    return Reply(204)


async def mute(call: Call) -> Reply:
    demands = precondition(call)
    request = await call.read(MuteNoticeRequest)
    await call.services.notice_editor.mute(
        call.path["name"], request.until or 0, who=call.who, demands=demands
    )
    return await _shown(call, 200)


async def acknowledge(call: Call) -> Reply:
    request = await call.read(AcknowledgeRequest)
    count = await call.services.notice_editor.acknowledge(call.path["name"], request.key, who=call.who)
    return Reply(200, {"acknowledged": count})


async def test(call: Call) -> Reply:
    message_id = await call.services.notice_editor.test(call.path["name"], who=call.who)
    return Reply(202, {"message_id": message_id})


async def _shown(call: Call, status: int) -> Reply:
    shown = await call.services.notices.get(call.path["name"])
    return Reply(status, views.notice_view(shown, call.content), etag_header(shown.stored.etag))
