"""The command that sets the limits of many values of a key from a table."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from jqmaster.cli.console import exits, output
from jqmaster.cli.console.http import MasterSession
from jqmaster.cli.declared.constraint_calls import CONSTRAINTS, whole
from jqmaster.cli.declared.constraint_files import canonical_json, document_of
from jqmaster.cli.declared.limit_tables import table_in


def limits(
    http: MasterSession,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of a constraint that has a key.")],
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="CSV file with the columns value and concurrency, rate (LIMIT/SECONDS), paused or weight; or a JSON "
            "file that maps values to limits; - reads JSON from standard input.",
        ),
    ],
    *,
    replace: Annotated[
        bool, typer.Option("--replace", help="Remove the limits and weights of values that are not in FILE.")
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Count the values and waiting jobs that change, and change nothing."),
    ] = False,
) -> None:
    """Set the limits of many values of the key from a table.

    Overrides that select values by a condition stay unchanged."""
    rows = table_in(file)
    present = http.get(CONSTRAINTS.path(name))
    if present["key"] is None:
        exits.fail(exits.USAGE, f"{name} has no key, so it has no values")
    before = document_of(present)
    after = _with_table(before, rows, replace=replace)
    changed = _changed(before, after)
    counts = _count(http, after, changed)
    if not dry_run and canonical_json(before) != canonical_json(after):
        headers = {"If-Match": f'"{present["etag"]}"'}
        http.call("PUT", CONSTRAINTS.path(name), body=after, headers=headers)
    if http.says_json({"name": name, "dry_run": dry_run, **counts}):
        return
    about = "" if counts["is_exact"] else "at least "
    output.say(
        f"{name}: {counts['changed_values']} values {'would get' if dry_run else 'got'} other limits or weights; "
        f"{about}{counts['waiting_jobs']} waiting jobs of {counts['waiting_values']} of these values"
    )


def _with_table(
    before: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], *, replace: bool
) -> dict[str, Any]:
    """Return the document with the limits and shares of the table."""
    old = before["overrides"]
    overrides = {} if replace else {_known_as(one): one for one in old if not one.get("match")}
    turns: Mapping[str, Any] = {"weights": [], "default": 1}
    if isinstance(before["fair"], Mapping):
        turns = before["fair"]
    shares = {} if replace else {_known_as(one): one for one in turns["weights"]}
    for row in rows:
        given = {field: row[field] for field in ("concurrency", "rate", "paused") if field in row}
        if given:
            overrides[_known_as(row)] = {"value": row["value"], **given}
        if "weight" in row:
            shares[_known_as(row)] = {"value": row["value"], "weight": row["weight"]}
    fair = before["fair"]
    if shares or isinstance(fair, Mapping):
        fair = {**turns, "weights": list(shares.values())}
    conditions = [one for one in old if one.get("match")]
    return {**before, "overrides": [*overrides.values(), *conditions], "fair": fair}


def _changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Any]:
    """Return the values for which limits or shares differ."""
    old, new = _terms(before), _terms(after)
    return [value for key, (value, _) in {**old, **new}.items() if old.get(key) != new.get(key)]


def _terms(document: Mapping[str, Any]) -> dict[str, tuple[Any, list[str]]]:
    """Return the limits and the share of each value that has a limit or a share."""
    found: dict[str, tuple[Any, list[str]]] = {}
    turns = document["fair"] if isinstance(document["fair"], Mapping) else {"weights": []}
    for one in (*document["overrides"], *turns["weights"]):
        if not one.get("match"):
            given = {name: part for name, part in one.items() if name not in ("value", "match") and part}
            found.setdefault(_known_as(one), (one["value"], []))[1].append(canonical_json(given))
    return found


def _count(http: MasterSession, document: Mapping[str, Any], values: Sequence[Any]) -> dict[str, Any]:
    """Return the number of values that change, and the number of their waiting jobs."""
    body = {
        "matcher": document["matcher"],
        "key": document["key"],
        "overrides": [{"value": value} for value in values],
        "limit": 0,
    }
    found = http.post("/api/constraints/preview", body)
    return {
        "changed_values": len(values),
        "waiting_jobs": sum(one["jobs"] for one in found["overrides"]),
        "waiting_values": sum(one["values"] > 0 for one in found["overrides"]),
        "is_exact": found["is_exact"],
    }


def _known_as(one: Mapping[str, Any]) -> str:
    return canonical_json(whole(one["value"]))
