"""The last declarations of each source, over HTTP."""

import re
from typing import Any, Final

from jqmaster.api.http.endpoint import Call, Reply
from jqmaster.api.operations.declaration_schemas import SOURCE_PATTERN, DeclarationRequest
from jqmaster.domain.instant import iso_ms
from jqmaster.errors import FieldError, InvalidError
from jqmaster.store.operations.declarations import Declaration

_SOURCE: Final = re.compile(SOURCE_PATTERN.replace("$", r"\Z"))


async def list_declarations(call: Call) -> Reply:
    call.query()
    return Reply(200, {"declarations": [_view(one) for one in await call.services.declarations.all()]})


async def put(call: Call) -> Reply:
    source = call.path["source"]
    if not _SOURCE.match(source):
        raise InvalidError(
            "the name of the source is not valid",
            errors=[FieldError(("source",), "must be 1 to 100 of A-Z a-z 0-9 _ . : -")],
        )
    request = await call.read(DeclarationRequest)
    now_ms = await call.services.store_time_ms()
    declaration = Declaration(
        source, request.constraints, request.definitions, now_ms, call.who, request.calendars
    )
    await call.services.declarations.put(declaration)
    return Reply(200, _view(declaration))


def _view(declaration: Declaration) -> dict[str, Any]:
    return {
        "source": declaration.source,
        "constraints": dict(declaration.constraints),
        "calendars": dict(declaration.calendars),
        "definitions": dict(declaration.definitions),
        "applied_at": iso_ms(declaration.applied_at_ms),
        "applied_by": declaration.applied_by,
    }
