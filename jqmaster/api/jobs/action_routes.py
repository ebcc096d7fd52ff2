"""Routes of actions on many jobs. They stand before those of single jobs, whose paths would fit too."""

from typing import Final

from jqmaster.api.http.auth import Scope
from jqmaster.api.http.endpoint import Operation
from jqmaster.api.jobs import action_handlers, action_schemas

_STORE: Final = (503,)
_BEGIN_TEXT: Final = (
    "The leader works through the jobs page by page, each by itself as the route for a single job would, and goes on "
    "after a change of the lead. Jobs that are enqueued after it began are not touched, and no job twice. cancel: waiting "
    "and running jobs; retry: jobs that are over; delete: jobs that do not run, with argument, result and history; run: jobs "
    "that wait for a time; set_priority: waiting jobs. With dry_run it answers 200 at once with how many there are."
)
_CANCEL_TEXT: Final = "It ends before its next step. What it did stays done."

OPERATIONS: Final = [
    Operation("POST", "/api/jobs/actions", action_handlers.begin, Scope.OPERATE, "Do something with many jobs", "jobs",
              {202: action_schemas.JobActionView, 200: action_schemas.JobActionPreview}, action_schemas.JobActionRequest, problems=(413, 429, *_STORE),
              text=_BEGIN_TEXT),
    Operation("GET", "/api/jobs/actions", action_handlers.list_actions, Scope.READ, "List actions on many jobs", "jobs",
              {200: action_schemas.JobActionList}, problems=_STORE),
    Operation("GET", "/api/jobs/actions/{action_id}", action_handlers.get, Scope.READ, "View an action on many jobs", "jobs",
              {200: action_schemas.JobActionView}, problems=(404, *_STORE)),
    Operation("POST", "/api/jobs/actions/{action_id}/cancel", action_handlers.cancel, Scope.OPERATE, "End an action on many jobs", "jobs",
              {202: action_schemas.JobActionView}, problems=(404, 409, *_STORE), text=_CANCEL_TEXT),
]  # fmt: skip
