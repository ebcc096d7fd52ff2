"""Routes of statistics, history and failures."""

from typing import Any, Final

from jqmaster.api.http.endpoint import Operation
from jqmaster.api.operations import failures, stats, stats_schemas
from jqmaster.domain.identity.access import Scope

_STORE: Final = (503,)
_MERGE_TEXT: Final = (
    "The group becomes part of the other group in lists, in the filter `failure_group`, and in decisions. "
    "The answer is the other group. In the store, failures keep their own group, so a split restores the "
    "group."
)
_SPAN: Final[dict[str, Any]] = {
    "schema": {"$ref": stats_schemas.SPAN_REF, "default": stats.DEFAULT_SPAN},
    "description": "Period up to now. It consists of whole steps, including the current step.",
}
_LIMIT: Final[dict[str, Any]] = {
    "schema": {"type": "integer", "minimum": 1, "maximum": stats.MAX_PAGE, "default": stats.PAGE},
    "description": "Maximum number of entries per page.",
}
_CURSOR: Final[dict[str, Any]] = {
    "schema": {"type": "string"},
    "description": "`next_cursor` of the previous page. Repeat the other parameters unchanged.",
}
_TEXT: Final[dict[str, Any]] = {"type": "string", "minLength": 1, "maxLength": stats.MAX_NAME_LENGTH}
_HISTORY_TEXT: Final = (
    "Minutes are kept for 24 hours and hours for 30 days, for up to 500 names. Further names are counted together as "
    "`(other)`. Counts of a master's last second before it died are missing."
)
_FAILURES_TEXT: Final = (
    "Groups the jobs that failed for good by name, cause and place in the code. If the stack trace does not "
    "show the place, jobs are grouped by their messages, with placeholders for variable parts. The 500 most "
    "recently seen groups are kept, each for 30 days after its last failure."
)

_LABEL: Final[dict[str, Any]] = {"type": "string", "pattern": f"^[^=]{{1,{stats.MAX_LABEL_KEY}}}="}
_DEMAND_TEXT: Final = (
    "Returns how many slots workers need now. Use it to scale a fleet. Jobs that constraints hold back do "
    "not count, because more workers would not start them. At most 32 parameters can be given."
)
_IGNORE_TEXT: Final = (
    "The Overview of the web UI does not show an ignored group as a fault. The group's jobs and counts do "
    "not change."
)

_RESOLVE_TEXT: Final = (
    "The group is open again as soon as a job fails in this way on a worker of that version or a later "
    "version. Numeric versions, such as 1.12.0, are compared as numbers. Any other version counts as later "
    "if no job has failed on it so far."
)
_VALUES_TEXT: Final = (
    "Shows, for example, which customers a fault affects. The latest 500 jobs of the group are examined. "
    "Jobs with records longer than 16 KB are left out. The answer is 403 for a caller who may not see these "
    "values."
)
_REMOVE_TEXT: Final = (
    "Masters stop checking arguments of jobs with this name, until a worker with a contract of the name "
    "registers again. Without this call, the last contract stays in force for 30 days after its last worker "
    "registered."
)

OPERATIONS: Final = [
    Operation("GET", "/api/stats", stats.now, Scope.READ, "Get the current state", "statistics",
              {200: stats_schemas.Stats}, problems=_STORE,
              text="Computed at most once per second for all callers."),
    Operation("GET", "/api/stats/history", stats.history, Scope.READ, "Get counts over time", "statistics",
              {200: stats_schemas.StatsHistory},
              query={
                  "name": {"schema": _TEXT, "description": "Counts for this job name only."},
                  "span": _SPAN,
                  "before": {"schema": {"type": "string", "enum": list(stats.PERIODS)},
                             "description": (
                                 "For comparison, also return a period of the same length that "
                                 "ended this long ago. Its steps are hours, because minutes are "
                                 "not kept long enough. Its last step may overlap the current "
                                 "period."
                             )},
              },
              problems=_STORE, text=_HISTORY_TEXT),
    Operation("GET", "/api/names", stats.list_names, Scope.READ, "List job names", "statistics",
              {200: stats_schemas.NameList},
              query={
                  "q": {"schema": _TEXT, "description": "Names that contain this text."},
                  "span": _SPAN,
                  "sort": {"schema": {"type": "string", "enum": list(stats.ORDERS), "default": "name"},
                           "description": "Sort key. Numbers are sorted in descending order."},
                  "limit": _LIMIT,
                  "cursor": _CURSOR,
              }, problems=_STORE, text="For spans of 24h and more, the sums cover whole hours."),
    Operation("GET", "/api/names/{job_name}", stats.get_name, Scope.READ, "Get a job name", "statistics",
              {200: stats_schemas.NameDetail},
              query={"span": _SPAN}, problems=(404, *_STORE),
              text="Includes histograms of wait and run times, and the contracts that workers "
                   "reported for the name."),
    Operation("GET", "/api/demand", stats.demand, Scope.READ, "Get the demand for workers", "statistics",
              {200: stats_schemas.DemandView},
              query={
                  "name": {"schema": {"type": "array", "items": _TEXT},
                           "description": "Jobs of this name only. Repeat it for several names."},
                  "label": {"schema": {"type": "array", "items": _LABEL},
                            "description": (
                                "A label of the workers, as `KEY=VALUE`. Repeat it for several "
                                "labels. Only workers with these labels, and jobs that they may "
                                "run, are counted."
                            )},
              }, problems=_STORE, text=_DEMAND_TEXT),
    Operation("DELETE", "/api/contracts/{job_name}", stats.remove_contracts, Scope.OPERATE,
              "Remove the contracts of a name", "statistics", {204: None}, problems=(404, *_STORE), text=_REMOVE_TEXT),
    Operation("GET", "/api/failures", stats.list_failures, Scope.READ, "List failure groups", "statistics",
              {200: stats_schemas.FailureList},
              query={
                  "name": {"schema": _TEXT, "description": "Failures of this job name only."},
                  "q": {"schema": _TEXT, "description":
                        "Groups with this text in their name or displayed message. Case does not matter."},
                  "version": {"schema": _TEXT, "description": "Groups that were seen on workers of this version."},
                  "ignored": {"schema": {"type": "boolean"}, "description":
                              "true: only ignored groups. false: only groups that are not ignored."},
                  "resolved": {"schema": {"type": "boolean"}, "description":
                               "true: only groups that are resolved and not open again. false: only other "
                               "groups."},
                  "open": {"schema": {"type": "boolean"}, "description":
                           "true: only groups that are neither ignored nor resolved. false: only groups "
                           "that are ignored or resolved."},
                  "assignee": {"schema": _TEXT, "description": "Groups that this person looks after."},
                  "limit": _LIMIT,
                  "cursor": _CURSOR,
              }, problems=_STORE, text=_FAILURES_TEXT),
    Operation("POST", "/api/failures/{group_id}/ignore", stats.ignore_failure, Scope.OPERATE,
              "Ignore a failure group", "statistics",
              {200: stats_schemas.FailureGroup}, stats_schemas.IgnoreRequest, problems=(404, *_STORE),
              text=_IGNORE_TEXT),
    Operation("DELETE", "/api/failures/{group_id}/ignore", stats.unignore_failure, Scope.OPERATE,
              "Stop ignoring a failure group", "statistics",
              {200: stats_schemas.FailureGroup}, problems=(404, *_STORE)),
    Operation("POST", "/api/failures/{group_id}/assign", failures.assign, Scope.OPERATE,
              "Assign a failure group", "statistics",
              {200: stats_schemas.FailureGroup}, stats_schemas.AssignRequest, problems=(404, *_STORE)),
    Operation("DELETE", "/api/failures/{group_id}/assign", failures.unassign, Scope.OPERATE,
              "Unassign a failure group", "statistics",
              {200: stats_schemas.FailureGroup}, problems=(404, *_STORE)),
    Operation("POST", "/api/failures/{group_id}/resolve", failures.resolve, Scope.OPERATE,
              "Resolve a failure group", "statistics",
              {200: stats_schemas.FailureGroup}, stats_schemas.ResolveRequest, problems=(404, *_STORE),
              text=_RESOLVE_TEXT),
    Operation("DELETE", "/api/failures/{group_id}/resolve", failures.reopen, Scope.OPERATE,
              "Reopen a failure group", "statistics",
              {200: stats_schemas.FailureGroup}, problems=(404, *_STORE)),
    Operation("POST", "/api/failures/{group_id}/merge", failures.merge, Scope.OPERATE,
              "Merge a failure group into another", "statistics",
              {200: stats_schemas.FailureGroup}, stats_schemas.MergeRequest, problems=(404, *_STORE),
              text=_MERGE_TEXT),
    Operation("DELETE", "/api/failures/{group_id}/merge", failures.split, Scope.OPERATE,
              "Split a merged failure group off", "statistics",
              {200: stats_schemas.FailureGroup}, problems=(404, *_STORE)),
    Operation("GET", "/api/failures/{group_id}/values", failures.list_values, Scope.READ,
              "List the values of a failure group", "statistics",
              {200: stats_schemas.AffectedValues},
              query={"path": {"schema": _TEXT, "required": True, "description":
                              "Path of a value in the argument or the headers, such as `argument.tenant`."}},
              problems=(404, *_STORE), text=_VALUES_TEXT),
]  # fmt: skip
