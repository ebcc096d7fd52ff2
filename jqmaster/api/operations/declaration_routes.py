"""Routes of declarations."""

from typing import Final

from jqmaster.api.http.endpoint import Operation
from jqmaster.api.operations import declaration_schemas, declarations
from jqmaster.domain.identity.access import Scope

_LIST_TEXT: Final = (
    "A source is a file or a module that declares constraints, calendars and definitions. `jqmaster apply` "
    "applies the declarations of a source together, and records them here."
)
_PUT_TEXT: Final = (
    "Records the objects that a source has applied. Changes no constraint, calendar or definition. The next "
    "plan of the source uses this record to show objects that the source no longer declares or somebody "
    "else has changed."
)

OPERATIONS: Final = [
    Operation("GET", "/api/declarations", declarations.list_declarations, Scope.READ, "List the declarations",
              "operations", {200: declaration_schemas.DeclarationList}, problems=(503,), text=_LIST_TEXT),
    Operation("PUT", "/api/declarations/{source}", declarations.put, Scope.OPERATE,
              "Record the declarations of a source", "operations", {200: declaration_schemas.DeclarationView},
              declaration_schemas.DeclarationRequest, problems=(409, 503), text=_PUT_TEXT),
]  # fmt: skip
