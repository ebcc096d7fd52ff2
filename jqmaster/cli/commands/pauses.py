"""Commands about pauses. A pause stops jobs with a name or a tag, jobs of a constraint, or jobs of one value of
its key."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from jqmaster.cli.console import exits, output
from jqmaster.cli.console.documents import json_or_text
from jqmaster.cli.console.http import MasterSession
from jqmaster.cli.console.times import duration_s
from jqmaster.cli.declared.constraint_calls import CONSTRAINTS, all_constraints, whole
from jqmaster.cli.declared.constraint_files import canonical_json
from jqmaster.domain.constraints.constraint import PAUSE_PREFIX

TagOption = Annotated[str | None, typer.Option(help="Pause the jobs with this tag.")]
ConstraintOption = Annotated[str | None, typer.Option(help="Pause the jobs that this constraint matches.")]
ValueOption = Annotated[
    str | None,
    typer.Option(help="Only jobs with this value of the constraint's key: JSON, or plain text if it is not JSON."),
]  # fmt: skip


def pause(
    http: MasterSession,
    job_name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Pause the jobs of this name.")
    ] = None,
    *,
    tag: TagOption = None,
    constraint: ConstraintOption = None,
    value: ValueOption = None,
    reason: Annotated[str, typer.Option(help="Why, for people.")] = "",
    lasts: Annotated[
        str | None, typer.Option("--for", metavar="TIME", help="End the pause after 90s, 30m, 2h or 7d.")
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="End the pause at this time.")] = None,
) -> None:
    """Pause the jobs of a name, a tag, a constraint or one value of its key. Running jobs continue.

    Without --for and --until, the pause lasts until `jqmaster resume`.
    """
    _check_one([job_name] if job_name else [], tag, constraint, value)
    body: dict[str, Any] = {"job_name": job_name, "tag": tag, "constraint": constraint, "reason": reason}
    if value is not None:
        body["value"] = json_or_text(value)
    body["duration_s"] = duration_s(lasts, until)
    made = http.post("/api/pauses", body)
    ends = f"until {made['expires_at']}" if made["expires_at"] else "until somebody resumes it"
    http.say(made, f"{made['name']}  paused {_what(made)} {ends}")


def resume(
    http: MasterSession,
    paused: Annotated[
        list[str] | None, typer.Argument(metavar="NAME…", help="Job names, or IDs of pauses.")
    ] = None,
    *,
    tag: TagOption = None,
    constraint: ConstraintOption = None,
    value: ValueOption = None,
) -> None:
    """End pauses, selected by their IDs or by the paused jobs. `jqmaster pauses` lists all pauses."""
    _check_one(paused or [], tag, constraint, value)
    present = all_constraints(http)
    worst = exits.OK
    for text, matcher in _requested(paused or [], tag, constraint, value, present):
        ended = [
            one["name"]
            for one in present
            if _is_pause(one) and (one["name"] == text or canonical_json(one["matcher"]) == matcher)
        ]
        for name in ended:
            http.call("DELETE", CONSTRAINTS.path(name))
            http.say({"id": name, "ended": True}, f"{name}  ended")
        if not ended:
            output.echo(
                f"No pause of {output.escape_controls(text)}.{_other_pause(present, constraint)}",
                is_error=True,
            )
            worst = exits.NOT_FOUND
    raise typer.Exit(worst)


def list_pauses(http: MasterSession) -> None:
    """List the current pauses, with their authors, reasons and ends."""
    found = [one for one in all_constraints(http) if one["enabled"] and any(_paused_parts(one))]
    # Print one row for each paused part. For programs, print the whole constraints.
    rows = [{**one, "part": part} for one in found for part in _paused_parts(one)]
    http.show_list(
        found if http.as_json else rows,
        ("ID", "PAUSED", "WAITING", "BY", "SINCE", "UNTIL", "REASON"),
        lambda one: (one["name"], one["part"], one["usage"]["waiting"], *_origin(one), one.get("reason")),
    )


# --- selecting jobs


def _check_one(names: list[str], tag: str | None, constraint: str | None, value: str | None) -> None:
    if sum(map(bool, (names, tag, constraint))) != 1:
        exits.fail(exits.USAGE, "give NAME, --tag or --constraint")
    if value is not None and constraint is None:
        exits.fail(exits.USAGE, "--value needs --constraint")


def _requested(
    paused: list[str],
    tag: str | None,
    constraint: str | None,
    value: str | None,
    present: list[dict[str, Any]],
) -> Iterator[tuple[str, str]]:
    """Yield, for each requested pause, its name in messages and its matcher."""
    for name in paused:
        yield name, canonical_json({"field": "name", "op": "eq", "value": name})
    if tag:
        yield f"tag {tag}", canonical_json({"field": "tags", "op": "eq", "value": tag})
    if constraint:
        text = f"constraint {constraint}" + ("" if value is None else f" at the value {value}")
        yield text, canonical_json(_matcher_of(constraint, value, present))


def _matcher_of(constraint: str, value: str | None, present: list[dict[str, Any]]) -> Mapping[str, Any]:
    """Return the matcher of a pause of the constraint. End the command if there is no such constraint."""
    one = next((one for one in present if one["name"] == constraint), None)
    if one is None:
        exits.fail(exits.NOT_FOUND, f"no constraint {constraint}")
    matcher: Mapping[str, Any] = one["matcher"]
    if value is None:
        return matcher
    return {"all": [matcher, {"field": one["key"], "op": "eq", "value": whole(json_or_text(value))}]}


def _is_pause(one: Mapping[str, Any]) -> bool:
    return bool(one["name"].startswith(PAUSE_PREFIX))


def _other_pause(present: list[dict[str, Any]], constraint: str | None) -> str:
    """Return a hint if the constraint itself or a value of its key is paused."""
    is_paused = any(one["name"] == constraint and any(_paused_parts(one)) for one in present)
    return f" It is paused as a limit: run `jqmaster constraints resume {constraint}`." if is_paused else ""


# --- output


def _what(one: Mapping[str, Any]) -> str:
    """Return a text about the jobs that a pause concerns."""
    matcher = one["matcher"]
    if matcher.get("op") == "eq" and matcher["field"] == "name":
        return f"jobs named {matcher['value']}"
    if matcher.get("op") == "eq" and matcher["field"] == "tags":
        return f"jobs tagged {matcher['value']}"
    return f"jobs that match {canonical_json(matcher)}"


def _paused_parts(one: Mapping[str, Any]) -> Iterator[str]:
    """Yield a text for each paused part of a constraint. A pause is a constraint, too."""
    if _is_pause(one):
        yield _what(one)
        return
    if one["paused"]:
        yield f"constraint {one['name']}"
    for override in one["overrides"]:
        if override["paused"] and override.get("match"):
            yield f"constraint {one['name']} for jobs that match {canonical_json(override['match'])}"
        elif override["paused"]:
            yield f"constraint {one['name']} at {one['key']} = {canonical_json(override['value'])}"


def _origin(one: Mapping[str, Any]) -> tuple[object, object, object]:
    """Return the author, the beginning and the end of a pause. If a constraint is paused, only the time of its
    last change is known."""
    if _is_pause(one):
        return one.get("created_by"), one["created_at"], one.get("expires_at")
    return None, one["changed_at"], None
