"""All routes of the API, collected from one file for each part."""

from typing import Final

from jqmaster.api.batches import routes as batches
from jqmaster.api.calendars import routes as calendars
from jqmaster.api.challenges import routes as challenges
from jqmaster.api.constraints import routes as constraints
from jqmaster.api.definitions import routes as definitions
from jqmaster.api.events import routes as events
from jqmaster.api.identity import routes as identity
from jqmaster.api.jobs import action_routes as job_actions
from jqmaster.api.jobs import routes as jobs
from jqmaster.api.logs import routes as logs
from jqmaster.api.namespaces import routes as namespaces
from jqmaster.api.notices import routes as notices
from jqmaster.api.operations import agent_routes as agents
from jqmaster.api.operations import declaration_routes as declarations
from jqmaster.api.operations import routes as operations
from jqmaster.api.operations import settings_routes as settings
from jqmaster.api.operations import stats_routes as stats
from jqmaster.api.operations import timeline_routes as timeline
from jqmaster.api.personal_data import routes as personal_data
from jqmaster.api.targets import routes as targets
from jqmaster.api.workers import routes as workers

OPERATIONS: Final = [
    *job_actions.OPERATIONS,
    *constraints.JOB_OPERATIONS,
    *jobs.OPERATIONS,
    *logs.OPERATIONS,
    *workers.OPERATIONS,
    *constraints.OPERATIONS,
    *definitions.OPERATIONS,
    *calendars.OPERATIONS,
    *events.OPERATIONS,
    *batches.OPERATIONS,
    *challenges.OPERATIONS,
    *notices.OPERATIONS,
    *targets.OPERATIONS,
    *personal_data.OPERATIONS,
    *namespaces.OPERATIONS,
    *declarations.OPERATIONS,
    *operations.OPERATIONS,
    *agents.OPERATIONS,
    *identity.OPERATIONS,
    *settings.OPERATIONS,
    *stats.OPERATIONS,
    *timeline.OPERATIONS,
]
