"""Convert calendars between the forms of files, requests and the API's views."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jqmaster.api.calendars.schemas import CalendarRequest

FIELDS = ("dates", "ical", "country", "subdivision", "language", "weekend")


def document_of(view: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request that would create the calendar that a view shows."""
    return {field: view[field] for field in FIELDS}


def document_of_request(name: str, request: "CalendarRequest") -> dict[str, Any]:
    """Return the document that a master would show for this request. It has no weekend if the request has none.
    Raise InvalidError if the request is not valid."""
    from jqmaster.domain.calendars.calendar import CalendarError, holidays_of
    from jqmaster.errors import FieldError, InvalidError
    from jqmaster.service.calendars.editor import in_order

    document = {field: getattr(request, field) for field in FIELDS if field != "weekend"}
    try:
        if request.dates is not None:
            days = holidays_of([one.model_dump() for one in request.dates])
            document["dates"] = [{"date": day.isoformat(), "name": text} for day, text in days.items()]
    except CalendarError as error:
        raise InvalidError(
            f"calendar {name} is not valid", errors=[FieldError(error.loc, error.msg)]
        ) from None
    return document if request.weekend is None else document | {"weekend": list(in_order(request.weekend))}
