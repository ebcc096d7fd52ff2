"""One example for each body of the OpenAPI documents, by the name of its schema. There is one file for each room.
Tests check the examples against their schemas."""

from typing import Any, Final

from jqmaster.spec.examples import (
    batches,
    calendars,
    challenges,
    constraints,
    definitions,
    events,
    identity,
    jobs,
    logs,
    namespaces,
    notices,
    operations,
    personal_data,
    problems,
    targets,
    workers,
)

EXAMPLES: Final[dict[str, Any]] = {
    **batches.EXAMPLES,
    **calendars.EXAMPLES,
    **challenges.EXAMPLES,
    **constraints.EXAMPLES,
    **definitions.EXAMPLES,
    **events.EXAMPLES,
    **identity.EXAMPLES,
    **jobs.EXAMPLES,
    **logs.EXAMPLES,
    **namespaces.EXAMPLES,
    **notices.EXAMPLES,
    **operations.EXAMPLES,
    **personal_data.EXAMPLES,
    **problems.EXAMPLES,
    **targets.EXAMPLES,
    **workers.EXAMPLES,
}
