"""All routes: what is not here does not exist. One file for each part of the API."""

from typing import Final

from jqmaster.api.routes import (
    constraints,
    identity,
    job_actions,
    job_preview,
    jobs,
    live,
    operations,
    settings,
    stats,
    workers,
)

OPERATIONS: Final = [
    *job_actions.OPERATIONS,
    *job_preview.OPERATIONS,
    *jobs.OPERATIONS,
    *workers.OPERATIONS,
    *constraints.OPERATIONS,
    *live.OPERATIONS,
    *operations.OPERATIONS,
    *identity.OPERATIONS,
    *settings.OPERATIONS,
    *stats.OPERATIONS,
]
