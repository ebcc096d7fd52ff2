"""Constraints in a file, and the changes that make a master's constraints equal to them."""

import json
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from jqmaster.cli.console import exits
from jqmaster.cli.console.http import rule_line
from jqmaster.domain.constraints.constraint import PAUSE_PREFIX
from jqmaster.domain.constraints.limit_kinds import KINDS

FIELDS = (
    "enabled",
    "mode",
    "matcher",
    "key",
    *(kind.name for kind in KINDS),
    "overrides",
    "reason",
    "expires_at",
)
# A master of a former release does not name them.
_NEW: Final = {"reason": "", "expires_at": None}


def constraints_in(file: str) -> dict[str, dict[str, Any]]:
    """Return each constraint of FILE as the master would show it. End the command with all faults of the file."""
    wanted, faults = checked(_read(file))
    if faults:
        exits.fail(exits.REFUSED, "\n".join(f"{file}: {fault}" for fault in faults))
    return wanted


def checked(tables: Iterable[Mapping[str, Any]]) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Return each of these constraints as the master would show it, by name, and the faults of the others."""
    from pydantic import ValidationError

    from jqmaster.api.constraints.schemas import ConstraintRequest
    from jqmaster.api.encoding.answers import encode
    from jqmaster.api.encoding.envelopes import read_map
    from jqmaster.api.encoding.json_bridge import json_to_msgpack
    from jqmaster.api.encoding.negotiation import Encoding
    from jqmaster.api.encoding.validator import ScanLimits
    from jqmaster.api.http.problems import invalid_from
    from jqmaster.errors import JqmasterError
    from jqmaster.service.constraints.documents import describe, draft_of

    limits = ScanLimits(max_nesting=32, max_nodes=1_000_000)
    wanted: dict[str, dict[str, Any]] = {}
    faults: list[str] = []
    for number, table in enumerate(tables, 1):
        name = table.get("name")
        if not isinstance(name, str):
            faults.append(f"constraint {number} has no name")
            continue
        if name in wanted:
            faults.append(f"constraint {number} has the same name as an earlier one: {name}")
            continue
        try:
            fields = read_map(json_to_msgpack(json.dumps(table).encode()), limits=limits)
            try:
                request = ConstraintRequest.model_validate(fields)
            except ValidationError as error:
                raise invalid_from(error) from None
            document = describe(draft_of(name, request.model_dump()))
        except TypeError as error:
            faults.append(f"constraint {name}: {error}")
            continue
        except JqmasterError as error:
            rules = [rule_line(rule.loc, rule.msg) for rule in error.errors]
            faults.append("\n".join([f"constraint {name}: {error.detail}", *rules]))
            continue
        wanted[name] = json.loads(encode(document, Encoding.JSON))
    return wanted, faults


def _read(file: str) -> list[dict[str, Any]]:
    """Return the tables of FILE: `[[constraint]]` in TOML; in JSON `{"constraint": […]}`, a list, or one constraint."""
    tables = data = parsed(file)
    if data == {}:
        # A file that was cut off must not free everything; `{"constraint": []}` says so on purpose.
        exits.fail(exits.REFUSED, f"{file} has no constraints")
    if isinstance(data, dict) and "constraints" in data:
        exits.fail(
            exits.REFUSED,
            f"{file}: expected tables named `constraint`, as in [[constraint]], not `constraints`",
        )
    if isinstance(data, dict):
        tables = data["constraint"] if set(data) == {"constraint"} else [data]
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        exits.fail(exits.REFUSED, f"{file} has no list of constraints")
    return tables


def parsed(file: str) -> Any:
    """Return the data of a TOML or JSON file, or of standard input for `-`. End the command if there are none."""
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text("utf-8")
        return tomllib.loads(text) if file.endswith(".toml") else json.loads(text)
    except OSError as error:
        exits.fail(exits.REFUSED, f"cannot read {error.filename}: {error.strerror}")
    except (ValueError, RecursionError) as error:
        exits.fail(exits.REFUSED, f"{file} is neither TOML (by its name *.toml) nor JSON: {error}")


def only_one(file: str) -> dict[str, Any]:
    tables = _read(file)
    if len(tables) != 1:
        exits.fail(exits.REFUSED, f"{file} has {len(tables)} constraints, not one")
    return tables[0]


class ConstraintChange(NamedTuple):
    """A change of one constraint. `before` is missing for a creation, `after` for a deletion."""

    name: str
    etag: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None


def steps_to(
    wanted: Mapping[str, dict[str, Any]], present: list[dict[str, Any]], *, prune: bool
) -> list[ConstraintChange]:
    there = {one["name"]: one for one in present}
    steps = []
    for name, after in wanted.items():
        before = document_of(there[name]) if name in there else None
        if spelled(before) != spelled(after):
            steps.append(ConstraintChange(name, there[name]["etag"] if before else "", before, after))
    if prune:
        steps += [
            ConstraintChange(n, one["etag"], document_of(one), None)
            for n, one in there.items()
            if n not in wanted and not n.startswith(PAUSE_PREFIX)
        ]
    return steps


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    for field in (field for field in FIELDS if spelled(before.get(field)) != spelled(after.get(field))):
        old = f"{spelled(before[field])} -> " if field in before else ""
        yield f"{field}: {old}{spelled(after[field])}"


def document_of(view: Mapping[str, Any]) -> dict[str, Any]:
    return {field: view.get(field, _NEW.get(field)) for field in ("name", *FIELDS)}


def spelled(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)
