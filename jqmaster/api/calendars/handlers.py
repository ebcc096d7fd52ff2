"""Calendars over HTTP."""

from typing import Final

from jqmaster.api.calendars import views
from jqmaster.api.calendars.schemas import CalendarRequest
from jqmaster.api.http.endpoint import Call, Reply
from jqmaster.api.http.preconditions import check_name, etag_header, precondition
from jqmaster.service.calendars.editor import unknown_calendar

_NO_USERS: Final[list[str]] = []


async def list_calendars(call: Call) -> Reply:
    call.query()
    calendars = call.services.calendars
    users = await calendars.users()
    found = await calendars.readable()
    return Reply(
        200,
        {
            "calendars": [
                views.calendar_summary(one, users.get(one.calendar.name, _NO_USERS)) for one in found
            ]
        },
    )


async def get(call: Call) -> Reply:
    call.query()
    name = call.path["name"]
    stored = (await call.services.calendars.get([name])).get(name)
    if stored is None:
        raise unknown_calendar(name)
    return Reply(200, views.calendar_view(stored, await _users(call, name)), etag_header(stored.etag))


async def put(call: Call) -> Reply:
    name = call.path["name"]
    demands = precondition(call)
    request = await call.read(CalendarRequest)
    check_name(request.name, name)
    edit = await call.services.calendar_editor.put(
        name, request.model_dump(), who=call.who, demands=demands, is_dry=request.dry_run
    )
    view = views.change_answer(edit, await _users(call, name), is_dry=request.dry_run)
    status = 201 if edit.is_new and not request.dry_run else 200
    return Reply(status, view, etag_header(edit.stored.etag) if edit.stored else ())


async def delete(call: Call) -> Reply:
    await call.services.calendar_editor.delete(call.path["name"], call.who, precondition(call))
    return Reply(204)


async def _users(call: Call, name: str) -> list[str]:
    return (await call.services.calendars.users()).get(name, _NO_USERS)
