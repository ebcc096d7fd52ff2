"""Definitions as clients write and read them."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

from jqmaster.domain.definitions.definition import CatchUp, Definition, Kind, Overlap, TimeTrigger
from jqmaster.domain.definitions.refusal import DefinitionError
from jqmaster.domain.definitions.schedule import parse_schedule
from jqmaster.domain.instant import iso_ms
from jqmaster.domain.job import JobSpec
from jqmaster.domain.matcher import Loc
from jqmaster.errors import FieldError, InvalidError

# They have a meaning of their own in a path.
RESERVED_NAMES: Final = frozenset({".", "..", "preview"})
_DRAFT_DID: Final = "0" * 16
_DRAFT_JOB: Final = JobSpec("", "job", b"\xc0")


def draft_of(name: str, fields: Mapping[str, Any], job: JobSpec = _DRAFT_JOB) -> Definition:
    """A definition of a checked request: `fields` are those of the document. Raise InvalidError naming the rule."""
    if name in RESERVED_NAMES:
        raise refusal(("name",), "is a path of its own, and so no name")
    if fields["kind"] != Kind.TIME:
        raise refusal(("kind",), "must be time: definitions that events start are not supported yet")
    with refusing():
        return Definition(
            name=name,
            did=_DRAFT_DID,
            job=job,
            trigger=TimeTrigger(
                schedule=parse_schedule(fields["schedule"]),
                time_zone=fields["time_zone"],
                starts_at_ms=fields["starts_at"],
                ends_at_ms=fields["ends_at"],
                jitter_ms=round(fields["jitter_s"] * 1000),
                skip_late_after_ms=round(fields["skip_late_after_s"] * 1000),
                catch_up=CatchUp(fields["catch_up"]),
                max_catch_up=fields["max_catch_up"],
            ),
            enabled=fields["enabled"],
            description=fields["description"],
            overlap=Overlap(fields["overlap"]),
        )


def describe(definition: Definition) -> dict[str, Any]:
    """Return the document of a definition but for the content of its job, as clients write and read it."""
    trigger, job = definition.trigger, definition.job
    retry = job.retry
    return {
        "name": definition.name,
        "kind": str(definition.kind),
        "enabled": definition.enabled,
        "description": definition.description,
        "overlap": str(definition.overlap),
        "schedule": dict(trigger.schedule.document),
        "time_zone": trigger.time_zone,
        "starts_at": None if trigger.starts_at_ms is None else iso_ms(trigger.starts_at_ms),
        "ends_at": None if trigger.ends_at_ms is None else iso_ms(trigger.ends_at_ms),
        "jitter_s": trigger.jitter_ms / 1000,
        "skip_late_after_s": trigger.skip_late_after_ms / 1000,
        "catch_up": str(trigger.catch_up),
        "max_catch_up": trigger.max_catch_up,
        "job": {
            "name": job.name,
            "priority": job.priority,
            "max_retry": job.max_retry,
            "keep_result": job.keep_result,
            "timeout": job.timeout_ms / 1000,
            "retry": {
                "base_s": retry.base_s,
                "factor": retry.factor,
                "max_s": retry.max_s,
                "jitter": retry.jitter,
            },
            "rerun_lost": job.rerun_lost,
            "tags": list(job.tags),
        },
    }


@contextlib.contextmanager
def refusing() -> Iterator[None]:
    """Turn refusals of the domain into refusals to the client, each part with its place."""
    try:
        yield
    except DefinitionError as error:
        raise refusal(error.loc, error.msg) from None


def refusal(loc: Loc, msg: str) -> InvalidError:
    """Return the refusal of a definition because of the part at `loc`."""
    return InvalidError("the definition is not valid", errors=[FieldError(loc, msg)])
