"""HTTP models of incidents and of marks for charts."""

from typing import Literal

from pydantic import Field

from jqmaster.api.schemas import SINCE, Answer, Count, MatcherDocument, Milliseconds, Request, Timestamp
from jqmaster.domain.operations.timeline import LeaderCause, TimelineKind

MAX_NOTE = 500


class IncidentEntryView(Answer):
    """One entry of an incident."""

    id: str
    kind: TimelineKind = Field(json_schema_extra=SINCE)
    at: Timestamp = Field(description="Time at which the occurrence was over, or at which it was detected.")
    since: Timestamp = Field(description="Time at which the occurrence began.")
    text: str = Field(description="The entry as an English sentence.")
    subject: str = Field(
        description="ID of the worker or master, job name of the backlog, or `store`. Empty if there is none."
    )
    label: str = Field(
        description=(
            "Machine and process of the worker or master, ID of the job that waits longest, or a "
            "person's note."
        )
    )
    before: str = Field(
        description=("Machine and process of the former leader. Empty for entries of other kinds.")
    )
    by: str = Field(description="Author of the act. Empty if nobody acted, or the caller may not see it.")
    count: Count = Field(
        description=("Number of jobs that the worker held, that were taken back, or that waited.")
    )
    cause: LeaderCause | Literal[""] = Field(description="Why the former leader no longer leads.")


class TimelineIncidentView(Answer):
    """One incident: events that happened within a short time."""

    id: str
    title: str = Field(description="A few English words about the incident.")
    began_at: Timestamp
    ended_at: Timestamp | None = Field(description="Null while it is not over.")
    entries: list[IncidentEntryView] = Field(description="Entries in the order in which they began.")
    acknowledged: list[IncidentEntryView] = Field(
        description="People who take care of the incident, in the order in which they acknowledged it."
    )


class TimelineIncidentList(Answer):
    """Incidents, the newest first."""

    incidents: list[TimelineIncidentView]
    kept_since: Timestamp | None = Field(
        description=(
            "Time of the oldest entry that is kept. Nothing is known about earlier times. "
            "Null if there is none."
        )
    )


class MarkView(Answer):
    """A mark on a chart."""

    at: Timestamp
    until: Timestamp | None = Field(
        description=("End of the event that the mark shows. Null if it has no end, or if it is not over.")
    )
    kind: str = Field(
        description="`deploy` (the first worker of a version registered), `leader`, `incident`, `pause`, `resume`, "
        "`constraint`, `settings`, `definition`, `worker`, `acknowledged`. Further kinds may follow."
    )
    action: str | None = Field(
        description="Action of the audit log, such as `definition.pause`. Null for marks that have an `entry`."
    )
    is_new: bool = Field(description="True: the action created the constraint.")
    changed: list[str] = Field(
        description=(
            "Settings, or members of the constraint, that the action changed. Empty for other "
            "marks, and if the caller may not read the audit log."
        )
    )
    name: str | None = Field(description="Machine and process of the worker. Null for other marks.")
    text: str = Field(description="The mark as an English sentence.")
    subject: str = Field(description="The version, the master, or the name of the changed object.")
    by: str = Field(description="Author of the act. Empty if nobody acted, or the caller may not see it.")
    reason: str = Field(
        description=(
            "Reason for the pause or constraint. Empty if none was given, or the caller may not see it."
        )
    )
    matcher: MatcherDocument | None = Field(
        description="The jobs to which the pause or constraint applies, as a matcher. Null for other marks, and if the "
        "caller may not see it."
    )
    incident_id: str | None
    entry: IncidentEntryView | None = Field(
        description=(
            "Entry in the timeline of a mark that does not come from the audit log. For an incident: its "
            "first entry."
        )
    )


class MarkList(Answer):
    """Marks, the oldest first."""

    marks: list[MarkView]
    is_whole: bool = Field(
        description="False: there were more changes, and only the newest marks are listed."
    )


class IncidentPeaksView(Answer):
    """Sums and peaks of the minutes of an incident, over all names."""

    failed: Count = Field(description="Jobs that failed for good.")
    retried: Count = Field(description="Attempts that failed or were lost, if the job ran again.")
    backlog: Count | None = Field(description="Largest number of ready jobs. Null if it was not sampled.")
    oldest_wait_ms: Milliseconds | None = Field(
        description="Longest wait of a ready job. Null if it was not sampled."
    )


class TimelineIncidentDetail(TimelineIncidentView):
    """One incident, with the changes and the counts around it."""

    nearby: list[MarkView] = Field(
        description="Changes during the incident and in the ten minutes before it, the oldest first. One of them may "
        "be its cause."
    )
    nearby_is_whole: bool = Field(
        description="False: there were more changes, and only the newest changes are listed."
    )
    peaks: IncidentPeaksView | None = Field(
        description="Null if the incident is older than the history by minutes, which is kept for 24 hours."
    )


class AcknowledgeIncidentRequest(Request):
    """Acknowledges an incident: somebody takes care of it."""

    note: str = Field("", max_length=MAX_NOTE, description="Note for others, such as the next step.")
