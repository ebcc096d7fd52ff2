"""Routes of calendars."""

from typing import Final

from jqmaster.api.calendars import handlers, schemas
from jqmaster.api.http.endpoint import Operation
from jqmaster.domain.identity.access import Scope

_STORE: Final = (503,)
_PUT_TEXT: Final = (
    "Creates or replaces the calendar, and returns which holidays changed. `dry_run` changes nothing. Each "
    "request looks up the holidays of a country again. Instants that are already due follow the former "
    "holidays. Later instants follow the new holidays. A request that changes nothing writes nothing. "
    "Without preconditions, the last writer wins."
)
_DELETE_TEXT: Final = "Refused with 409 while definitions use it."

OPERATIONS: Final = [
    Operation("GET", "/api/calendars", handlers.list_calendars, Scope.READ, "List calendars", "calendars",
              {200: schemas.CalendarList}, problems=_STORE),
    Operation("GET", "/api/calendars/{name}", handlers.get, Scope.READ, "Get a calendar", "calendars",
              {200: schemas.CalendarView}, problems=(404, *_STORE)),
    Operation("PUT", "/api/calendars/{name}", handlers.put, Scope.OPERATE, "Create, replace or renew a calendar",
              "calendars", {200: schemas.CalendarChangeAnswer, 201: schemas.CalendarChangeAnswer},
              schemas.CalendarRequest, problems=(409, 412, 413, *_STORE), text=_PUT_TEXT),
    Operation("DELETE", "/api/calendars/{name}", handlers.delete, Scope.OPERATE, "Delete a calendar", "calendars",
              {204: None}, problems=(404, 409, 412, *_STORE), text=_DELETE_TEXT),
]  # fmt: skip
