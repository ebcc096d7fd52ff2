"""Constraints in a file, and the changes that make a master's constraints equal to the constraints in the file."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from jqmaster.cli.console import exits
from jqmaster.cli.console.documents import parsed
from jqmaster.cli.declared.checked_tables import checked_tables
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
# Fields that masters of an older release do not return, with their defaults.
_NEW: Final[dict[str, Any]] = {"reason": "", "expires_at": None, "reserve": []}


def constraints_in(file: str) -> dict[str, dict[str, Any]]:
    """Return the constraints of FILE by name, in the form that the master would show. If the file has faults, end
    the command and print all faults."""
    wanted, faults = checked(_read(file))
    if faults:
        exits.fail(exits.USAGE, "\n".join(f"{file}: {fault}" for fault in faults))
    return wanted


def checked(tables: Iterable[Mapping[str, Any]]) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Return the valid constraints by name, in the form that the master would show, and the faults of the other
    constraints."""
    from jqmaster.api.constraints.schemas import ConstraintRequest
    from jqmaster.service.constraints.documents import describe, draft_of

    def document_of_request(name: str, request: ConstraintRequest) -> dict[str, Any]:
        return describe(draft_of(name, request.model_dump()))

    wanted, faults = checked_tables("constraint", tables, ConstraintRequest, document_of_request)
    return {name: document for name, (_, document) in wanted.items()}, faults


def _read(file: str) -> list[dict[str, Any]]:
    """Return the tables of FILE. In TOML, they are named `[[constraint]]`. JSON has `{"constraint": […]}`, a list, or
    one constraint."""
    tables = data = parsed(file)
    if data == {}:
        # Refuse a file without constraints, because a truncated file must not remove all limits. To remove all
        # limits on purpose, use `{"constraint": []}`.
        exits.fail(exits.USAGE, f"{file} has no constraints")
    if isinstance(data, dict) and "constraints" in data:
        exits.fail(
            exits.USAGE,
            f"{file}: expected tables named `constraint`, as in [[constraint]], not `constraints`",
        )
    if isinstance(data, dict):
        tables = data["constraint"] if set(data) == {"constraint"} else [data]
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        exits.fail(exits.USAGE, f"{file} has no list of constraints")
    return tables


def only_one(file: str) -> dict[str, Any]:
    tables = _read(file)
    if len(tables) != 1:
        exits.fail(exits.USAGE, f"{file} has {len(tables)} constraints, not one")
    return tables[0]


class ConstraintChange(NamedTuple):
    """A change of one constraint. A creation has no `before`. A deletion has no `after`."""

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
        if canonical_json(before) != canonical_json(after):
            steps.append(ConstraintChange(name, there[name]["etag"] if before else "", before, after))
    if prune:
        steps += [
            ConstraintChange(n, one["etag"], document_of(one), None)
            for n, one in there.items()
            if n not in wanted and not n.startswith(PAUSE_PREFIX)
        ]
    return steps


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    for field in (
        field for field in FIELDS if canonical_json(before.get(field)) != canonical_json(after.get(field))
    ):
        old = f"{canonical_json(before[field])} -> " if field in before else ""
        yield f"{field}: {old}{canonical_json(after[field])}"


def document_of(view: Mapping[str, Any]) -> dict[str, Any]:
    return {field: view.get(field, _NEW.get(field)) for field in ("name", *FIELDS)}


def canonical_json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)
