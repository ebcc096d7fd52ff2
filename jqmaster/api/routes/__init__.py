"""All routes: what is not here does not exist. One file for each part of the API."""

from typing import Final

from jqmaster.api.routes import constraints, jobs, operations, workers

OPERATIONS: Final = [
    *jobs.OPERATIONS,
    *workers.OPERATIONS,
    *constraints.OPERATIONS,
    *operations.OPERATIONS,
]
