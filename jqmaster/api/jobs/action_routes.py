"""Routes of actions on many jobs. They must precede the routes of single jobs, because the patterns of those
routes also match these paths."""

from typing import Final

from jqmaster.api.http.auth import Scope
from jqmaster.api.http.endpoint import Operation
from jqmaster.api.jobs import action_handlers, action_schemas

_STORE: Final = (503,)
_BEGIN_TEXT: Final = (
    "The leader processes the jobs page by page. It treats each job like the route for a single job. A new "
    "leader continues the action. The action leaves out jobs that are enqueued after its start, and changes "
    "no job twice. Actions and their jobs:\n\n* cancel: waiting and running jobs.\n* retry: jobs that are "
    "over.\n* delete: jobs that are not running. Argument, result and history are deleted, too.\n* run: "
    "jobs that wait for a time.\n* set_priority: waiting jobs.\n\nWith dry_run, the answer is 200 at once, "
    "with the number of jobs."
)
_CANCEL_TEXT: Final = "The action ends before its next step. Its changes so far remain."

OPERATIONS: Final = [
    Operation("POST", "/api/jobs/actions", action_handlers.begin, Scope.OPERATE, "Start an action on many jobs", "jobs",
              {202: action_schemas.JobActionView, 200: action_schemas.JobActionPreview},
              action_schemas.JobActionRequest, problems=(409, 413, 429, *_STORE),
              text=_BEGIN_TEXT),
    Operation("GET", "/api/jobs/actions", action_handlers.list_actions, Scope.READ, "List actions on many jobs", "jobs",
              {200: action_schemas.JobActionList}, problems=_STORE),
    Operation("GET", "/api/jobs/actions/{action_id}", action_handlers.get, Scope.READ, "Get an action on many jobs",
              "jobs",
              {200: action_schemas.JobActionView}, problems=(404, *_STORE)),
    Operation("POST", "/api/jobs/actions/{action_id}/cancel", action_handlers.cancel, Scope.OPERATE,
              "Cancel an action on many jobs", "jobs",
              {202: action_schemas.JobActionView}, problems=(404, 409, *_STORE), text=_CANCEL_TEXT),
]  # fmt: skip
