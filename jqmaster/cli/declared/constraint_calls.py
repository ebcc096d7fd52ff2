"""Calls to a master about constraints."""

import json
from typing import Any

from jqmaster.cli.console import exits
from jqmaster.cli.console.http import MasterSession, path_of
from jqmaster.cli.declared.constraint_files import canonical_json, document_of

# How often to retry if somebody else changed the constraint between reading and writing. People are not that
# frequent.
_MAX_REPEATS = 5


def all_constraints(http: MasterSession) -> list[dict[str, Any]]:
    """Return every constraint with its usage."""
    _, answer = http.call("GET", "/api/constraints")
    found: list[dict[str, Any]] = answer["constraints"]
    return found


def set_paused(master: MasterSession, name: str, value: str | None, *, is_paused: bool) -> dict[str, Any]:
    """Return the changed constraint. Its other limits, and those of the value, stay as they are."""
    with master as http:
        for left in reversed(range(_MAX_REPEATS)):
            _, present = http.call("GET", path_to(name))
            if value is None:
                path, method = path_to(name), "PUT"
                body = {**document_of(present), "paused": is_paused}
            else:
                path, method = path_to(name, "values"), "POST"
                wanted = value_of(value)
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


def value_of(text: str) -> Any:
    """Return a value of a key as an option gives it: JSON, or else plain text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def whole(value: Any) -> Any:
    """Return a value of a key as the master compares it: it treats 1.0 as 1."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def if_match_of(etag: str | None) -> dict[str, str]:
    """Return the header that demands this ETag, if there is one."""
    if etag is None:
        return {}
    bare = etag.strip('"')
    return {"If-Match": f'"{bare}"'}


def path_to(name: str, *rest: str) -> str:
    """Return the path of a constraint, or of a part of it."""
    if "/" in name:
        exits.fail(exits.NOT_FOUND, f"no constraint {name}: a name has A-Z a-z 0-9 _ . : -")
    return path_of("/api/constraints", name, *rest)
