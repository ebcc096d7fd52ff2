"""Calls to a master about constraints."""

from typing import Any, Final

from jqmaster.cli.console.documents import json_or_text
from jqmaster.cli.console.groups import NamedObjects, if_match_of
from jqmaster.cli.console.http import MasterSession
from jqmaster.cli.declared.constraint_files import canonical_json, document_of

# Maximum number of tries if somebody else changes the constraint between the read and the write. More conflicts
# in a row are unlikely.
_MAX_REPEATS = 5
CONSTRAINTS: Final = NamedObjects("constraint", "/api/constraints")


def all_constraints(http: MasterSession) -> list[dict[str, Any]]:
    """Return every constraint with its usage."""
    found: list[dict[str, Any]] = http.get("/api/constraints")["constraints"]
    return found


def set_paused(http: MasterSession, name: str, value: str | None, *, is_paused: bool) -> dict[str, Any]:
    """Pause or resume a constraint, or one value of its key, and return the changed constraint. Other limits stay
    unchanged."""
    for left in reversed(range(_MAX_REPEATS)):
        present = http.get(CONSTRAINTS.path(name))
        if value is None:
            path, method = CONSTRAINTS.path(name), "PUT"
            body = {**document_of(present), "paused": is_paused}
        else:
            path, method = CONSTRAINTS.path(name, "values"), "POST"
            wanted = json_or_text(value)
            same = [
                o
                for o in present["overrides"]
                if canonical_json(whole(o["value"])) == canonical_json(whole(wanted))
            ]
            body = {**(same[0] if same else {"value": wanted}), "paused": is_paused}
        headers, admit = if_match_of(present["etag"]), (412,) if left else ()
        status, answer = http.call(method, path, body=body, headers=headers, admit=admit)
        if status != 412:
            break
    changed: dict[str, Any] = answer
    return changed


def whole(value: Any) -> Any:
    """Return a value of a key in the form in which the master compares values: 1.0 equals 1."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
