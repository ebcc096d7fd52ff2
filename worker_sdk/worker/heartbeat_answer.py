"""Parse the answers of masters to heartbeats and registrations."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from worker_sdk.masters.masters import MasterAnswer

if TYPE_CHECKING:
    from worker_sdk.protocol import HeartbeatAnswer

# A detached worker asks whether it may continue. If no master permits this after this many questions, the worker stops
# its jobs. Masters send both values, except older releases.
QUESTIONS: Final = 3
QUESTION_PAUSE_S: Final = 0.3
# The exceptions that occur when an invalid answer is read.
NONSENSE: Final = (KeyError, TypeError, ValueError, OverflowError)
# Codes of refusals of a body that is too large. A registration can only be too large because of its contracts.
TOO_MUCH: Final = ("body_too_large", "too_many_nodes", "too_deep")


@dataclass(slots=True)
class ParsedAnswer:
    """The answer to a heartbeat. It is checked completely before the worker acts on it."""

    store_time_ms: int
    lease_until_ms: int
    fence: int
    epoch: int
    lost: set[str]
    cancel: list[tuple[str, str]]
    drain: bool
    detached: bool
    # None if the master is too old to send this field.
    max_jobs: int | None
    questions: int
    question_pause_s: float

    @classmethod
    def read(cls, body: "HeartbeatAnswer") -> "ParsedAnswer":
        """Return the parsed answer. Raise one of `NONSENSE` if the answer is invalid."""
        return cls(
            int(body["store_time_ms"]),
            int(body["lease_until_ms"]),
            # Older masters do not send a fence.
            int(body.get("fence") or 0),
            int(body["epoch"]),
            {str(claim["token"]) for claim in body["lost"]},
            [(str(claim["job_id"]), str(claim["token"])) for claim in body["cancel"]],
            bool(body["drain"]),
            bool(body["detached"]),
            max(1, int(body["max_jobs"])) if body.get("max_jobs") else None,
            max(1, int(body.get("continue_questions") or QUESTIONS)),
            max(0.0, float(body.get("continue_pause_s") or QUESTION_PAUSE_S)),
        )

    def add(self, earlier: "ParsedAnswer") -> None:
        """Merge in the answer to an earlier call of the same heartbeat, which named other claims."""
        self.lost |= earlier.lost
        self.cancel += earlier.cancel


def refused_fields(answer: MasterAnswer) -> list[Any]:
    """Return the paths of the fields that a refusal names."""
    errors = answer.body.get("errors")
    given = (
        [error.get("loc") for error in errors if isinstance(error, dict)] if isinstance(errors, list) else []
    )
    return [loc for loc in given if isinstance(loc, list)]


def ignored_of(answer: MasterAnswer, *, first: int) -> list[Any]:
    """Return the fields of a call that a master ignored. `first`: position of the call's first claim in the heartbeat.
    In the result, positions of claims count within the heartbeat, and not within the call."""
    fields = answer.body.get("ignored")
    if not first or not isinstance(fields, list):
        return fields if isinstance(fields, list) else []
    shifted = []
    for field in fields:
        loc = field.get("loc") if isinstance(field, dict) else None
        if isinstance(loc, list) and loc[:1] == ["running"] and len(loc) > 1 and isinstance(loc[1], int):
            field = {**field, "loc": ["running", loc[1] + first, *loc[2:]]}
        shifted.append(field)
    return shifted
