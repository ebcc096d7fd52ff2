"""Routes of incidents and of marks for charts."""

from typing import Final

from jqmaster.api.http.endpoint import Operation
from jqmaster.api.operations import timeline, timeline_schemas
from jqmaster.domain.identity.access import Scope

_STORE: Final = (503,)
_INSTANT: Final = {"type": "string", "format": "date-time"}
_LIST_TEXT: Final = (
    "An incident begins when the store does not answer, a worker or a leader falls silent, or a job that "
    "may start has waited for a minute. Occurrences less than two minutes apart belong to one incident. The "
    "leader detects most occurrences within seconds. It records an outage of the store when the outage is "
    "over. About 2,000 entries are kept."
)
_MARKS_TEXT: Final = (
    "Lists events that may explain a change in a chart: incidents, deploys, pauses, new leaders, and "
    "changes of constraints and settings. At most the newest 200 marks of the period are listed. Callers "
    "without the scope operate may not read the audit log. So they do not see the author of a change, its "
    "reason, or the jobs that a pause affects."
)
_ACKNOWLEDGE_TEXT: Final = "Shows everybody who looks at the incident that somebody is taking care of it."

OPERATIONS: Final = [
    Operation("GET", "/api/incidents", timeline.list_incidents, Scope.READ, "List incidents", "operations",
              {200: timeline_schemas.TimelineIncidentList},
              query={"limit": {"schema": {"type": "integer", "minimum": 1, "maximum": timeline.MAX_PAGE,
                                          "default": timeline.PAGE},
                               "description": "Maximum number of incidents."}},
              problems=_STORE, text=_LIST_TEXT),
    Operation("GET", "/api/incidents/{incident_id}", timeline.get_incident, Scope.READ, "Get an incident",
              "operations", {200: timeline_schemas.TimelineIncidentDetail}, problems=(404, *_STORE)),
    Operation("POST", "/api/incidents/{incident_id}/acknowledge", timeline.acknowledge, Scope.OPERATE,
              "Acknowledge an incident", "operations",
              {200: timeline_schemas.TimelineIncidentDetail}, timeline_schemas.AcknowledgeIncidentRequest,
              problems=(404, *_STORE), text=_ACKNOWLEDGE_TEXT),
    Operation("GET", "/api/marks", timeline.list_marks, Scope.READ, "List marks for charts", "operations",
              {200: timeline_schemas.MarkList},
              query={
                  "since": {"schema": _INSTANT, "description": "Marks of this instant or later. Default: a day before "
                                                               "`until`."},
                  "until": {"schema": _INSTANT, "description": "Marks of this instant or earlier. Default: now."},
              }, problems=_STORE, text=_MARKS_TEXT),
]  # fmt: skip
