"""Read heartbeats. An invalid field must not end the leases of all jobs that the heartbeat names."""

from collections.abc import Collection, Sequence
from typing import Any, Final

from jqmaster.api.http.endpoint import check
from jqmaster.api.workers.schemas import HeartbeatRequest
from jqmaster.errors import FieldError, InvalidError

# The fields of an entry in `running` that name its claim.
_OF_CLAIM: Final = ("job_id", "token")
# The fields of an entry in `running` that are reports. The number `seq` orders reports.
_REPORTS: Final = ("progress", "checkpoint")


def read_heartbeat(fields: dict[str, Any]) -> tuple[HeartbeatRequest, list[FieldError]]:
    """Return the heartbeat without its invalid fields, and the faults of these fields.

    An entry in `running` without a valid claim counts as one invalid field. Raise InvalidError if `running`
    itself is missing, is not a list, or is too long."""
    try:
        return check(HeartbeatRequest, fields), []
    except InvalidError as exc:
        if any(error.loc in ((), ("running",)) for error in exc.errors):
            raise
        return check(HeartbeatRequest, _without(fields, exc.errors)), list(exc.errors)


def outdated_reports(running: list[Any], outdated: Collection[tuple[str, str]]) -> list[FieldError]:
    """Return an error for each report that is older than the saved report of the claim. `running`: the entries as
    the worker sent them."""
    return [
        FieldError(
            ("running", index, field),
            "a report with a higher `seq` has already been saved: increase `seq` with each report",
        )
        for index, claim in enumerate(running if outdated else ())
        if isinstance(claim, dict) and (str(claim.get("job_id")), str(claim.get("token"))) in outdated
        for field in _REPORTS
        if claim.get(field) is not None
    ]


def _without(fields: dict[str, Any], errors: Sequence[FieldError]) -> dict[str, Any]:
    top = {str(error.loc[0]) for error in errors if error.loc[0] != "running"}
    of_claims: dict[int, set[str]] = {}
    for error in errors:
        if error.loc[0] == "running":
            of_claims.setdefault(int(error.loc[1]), set()).add(
                str(error.loc[2]) if len(error.loc) > 2 else "token"
            )
    running = []
    for index, claim in enumerate(fields["running"]):
        bad = of_claims.get(index, set())
        if not bad.intersection(_OF_CLAIM):
            running.append({name: value for name, value in claim.items() if name not in bad})
    kept = {name: value for name, value in fields.items() if name not in top}
    # Set `free` to 0 if it is missing, because it is only shown to people.
    return {"free": 0} | kept | {"running": running}
