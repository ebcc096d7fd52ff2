"""The metrics that a master offers, with their names, kinds, labels and texts."""

from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["counter", "gauge", "histogram"]


@dataclass(frozen=True, slots=True)
class MetricInfo:
    """One metric. `name` lacks the suffixes that its kind adds: `_total`, `_bucket`, `_sum`, `_count`."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    text: str

    @property
    def is_by_namespace(self) -> bool:
        """Return whether the metric describes one namespace instead of the whole process."""
        return self.name not in _OF_PROCESS


_OF_PROCESS: Final = frozenset(
    {
        "jqmaster_http_request_seconds",
        "jqmaster_http_connections",
        "jqmaster_store_round_trip_seconds",
        "jqmaster_store_script_calls",
        "jqmaster_store_failures",
        "jqmaster_certificate_expiry_timestamp_seconds",
        "jqmaster_info",
    }
)
# Sentences in the descriptions of figures from the store. With several namespaces, the second sentence replaces the
# first.
SAME_EVERYWHERE: Final = "Every master reports the same value."
FROM_LEADER: Final = "Only the master that leads the namespace reports it."


METRICS: Final = {
    info.name: info
    for info in (
        MetricInfo("jqmaster_jobs_pushed", "counter", ("name",), "Jobs that this master accepted."),
        MetricInfo("jqmaster_jobs_ended", "counter", ("name", "outcome"),
                   "Jobs that ended at this master: succeeded, discarded, failed, canceled or skipped."),
        MetricInfo("jqmaster_attempts_ended", "counter", ("name", "outcome"),
                   "Attempts after which the job runs again (retried, deferred, handed_back), and all attempts lost "
                   "with their worker (lost)."),
        MetricInfo("jqmaster_job_wait_seconds", "histogram", ("name",),
                   "Time between ready and claimed, for each attempt."),
        MetricInfo("jqmaster_job_run_seconds", "histogram", ("name",),
                   "Run time of each attempt that ended by itself."),
        MetricInfo("jqmaster_offers_returned", "counter", (),
                   "Claims that were returned, because a worker refused them or they were never delivered."),
        MetricInfo("jqmaster_jobs_in_state", "gauge", ("state",),
                   "Jobs in the store. Every master reports the same value."),
        MetricInfo("jqmaster_ready_jobs", "gauge", ("name",),
                   "Jobs that are ready and wait for a worker. Every master reports the same value."),
        MetricInfo("jqmaster_oldest_wait_seconds", "gauge", ("name",),
                   "Longest wait of a ready job. Every master reports the same value."),
        MetricInfo("jqmaster_running_jobs", "gauge", ("name",),
                   "Jobs that are running. Every master reports the same value."),
        MetricInfo("jqmaster_slots", "gauge", ("name",),
                   "Slots, busy and free, of the live workers that serve the name. The slots of a worker "
                   "with several names count for each name. Every master reports the same value."),
        MetricInfo("jqmaster_oldest_startable_wait_seconds", "gauge", ("name",),
                   "Longest wait of a ready job that no constraint holds back. Every master reports "
                   "the same value."),
        MetricInfo("jqmaster_constraint_running", "gauge", ("constraint",),
                   "Running jobs that a constraint counts, or their units if it has a `weight`."),
        MetricInfo("jqmaster_constraint_limit", "gauge", ("constraint",),
                   "Maximum number of jobs, or of units, that a constraint lets run at once. With a key, this "
                   "applies to each value of the key."),
        MetricInfo("jqmaster_constraint_waiting", "gauge", ("constraint",), "Ready jobs that a constraint applies to."),
        MetricInfo("jqmaster_definition_instants", "counter", ("outcome",),
                   "Due instants of definitions that this master handled: fired, skipped or missed."),
        MetricInfo("jqmaster_definition_lateness_seconds", "histogram", (),
                   "Time between a due instant and the step that enqueued its job."),
        MetricInfo("jqmaster_events", "counter", ("outcome",),
                   "Events that this master took in: accepted, or duplicate of an earlier one."),
        MetricInfo("jqmaster_event_matches", "counter", ("effect",),
                   "Definitions that accepted events matched, by effect: fired, skipped or waiting "
                   "for further events."),
        MetricInfo("jqmaster_event_groups", "counter", (),
                   "Groups of collected or debounced events that this master turned into a job."),
        MetricInfo("jqmaster_batches", "counter", (), "Batches that this master created."),
        MetricInfo("jqmaster_batches_expired", "counter", (),
                   "Batches that this master canceled because they were not complete in time."),
        MetricInfo("jqmaster_batch_callbacks", "counter", ("callback",),
                   "Jobs that this master enqueued for batches: on_success, on_complete or on_failure."),
        MetricInfo("jqmaster_log_lines", "counter", (), "Log lines of jobs that this master took in."),
        MetricInfo("jqmaster_log_lines_dropped", "counter", (),
                   "Log lines that were lost in calls to this master: removed beyond a limit, or "
                   "dropped by the worker."),
        MetricInfo("jqmaster_log_lines_stale", "counter", (),
                   "Log lines that this master refused because the worker does not hold the job."),
        MetricInfo("jqmaster_log_bytes", "gauge", (),
                   "Size of the logs of all jobs in the store. Every master reports the same value."),
        MetricInfo("jqmaster_log_archive_logs", "counter", (), "Logs that this master moved to the archive."),
        MetricInfo("jqmaster_log_archive_lines", "counter", (), "Log lines that this master moved to the archive."),
        MetricInfo("jqmaster_log_archive_failures", "counter", (),
                   "Moves of logs that failed on this master because of the archive."),
        MetricInfo("jqmaster_log_archive_damaged", "counter", (),
                   "Logs that this master did not move to the archive, because it could not read them."),
        MetricInfo("jqmaster_log_archive_given_up", "counter", (),
                   "Log lines that this master removed because the archive did not take them in time."),
        MetricInfo("jqmaster_log_archive_erased", "counter", (),
                   "Logs of deleted jobs that this master removed from the archive."),
        MetricInfo("jqmaster_log_archive_lag_seconds", "gauge", (),
                   "Longest time that a log has waited to be archived; 0 without an archive. Every master "
                   "reports the same value."),
        MetricInfo("jqmaster_challenges_opened", "counter", (), "Challenges that workers opened at this master."),
        MetricInfo("jqmaster_challenges_expired", "counter", (),
                   "Challenges that this master ended because their callbacks did not come in time."),
        MetricInfo("jqmaster_callbacks", "counter", ("answer",),
                   "Callbacks that this master answered: taken (accepted), repeated, conflict, over "
                   "(late) or unknown."),
        MetricInfo("jqmaster_callback_wait_seconds", "histogram", (),
                   "Time between the opening of a challenge and its callback."),
        MetricInfo("jqmaster_webhook_calls", "counter", ("outcome",),
                   "Calls of webhooks by this master: delivered, failed, deferred, gone (410) or "
                   "refused (forbidden address)."),
        MetricInfo("jqmaster_notice_messages", "counter", ("kind",),
                   "Messages of notices that this master sent: first, more (further findings), over or test."),
        MetricInfo("jqmaster_notice_deliveries", "counter", ("channel", "outcome"),
                   "Attempts of this master to deliver by mail or slack, by outcome: delivered, failed, deferred, gone "
                   "or refused. Webhooks of notices are among the calls of webhooks."),
        MetricInfo("jqmaster_target_requests", "counter", ("target", "result"),
                   "Requests of this master to HTTP targets, by result: succeeded, awaiting (a callback), not_ready "
                   "(429 or 503), unreachable (not sent), failed or rejected (final)."),
        MetricInfo("jqmaster_target_request_seconds", "histogram", ("target",),
                   "Time between a request of this master to an HTTP target and the answer, or the end of the wait for "
                   "it."),
        MetricInfo("jqmaster_workers", "gauge", ("state",), "Registered workers: fresh, stale, draining, detached."),
        MetricInfo("jqmaster_worker_slots", "gauge", ("state",), "Slots of the live workers: busy, free."),
        MetricInfo("jqmaster_is_leader", "gauge", (), "1 if this master leads."),
        MetricInfo("jqmaster_leader_epoch", "gauge", (),
                   "Epoch of the newest leadership. It changes with each election, even if the same master wins."),
        MetricInfo("jqmaster_times_led", "counter", (), "Number of times that this master has been elected."),
        MetricInfo("jqmaster_http_requests", "counter", ("method", "route", "status"), "Requests that were answered."),
        MetricInfo("jqmaster_http_request_seconds", "histogram", ("method", "route"),
                   "Time to answer a request, including waits for jobs and results."),
        MetricInfo("jqmaster_http_connections", "gauge", (), "Open connections."),
        MetricInfo("jqmaster_store_round_trip_seconds", "histogram", ("script",),
                   "Time of a round trip to the store with one or several scripts, including the wait for a "
                   "connection."),
        MetricInfo("jqmaster_store_script_calls", "counter", ("script",), "Calls of scripts."),
        MetricInfo("jqmaster_store_failures", "counter", ("script",), "Round trips that failed."),
        MetricInfo("jqmaster_namespace_up", "gauge", (),
                   "1 if this master serves the namespace and its store answers. Missing as long as there is "
                   "only one namespace."),
        MetricInfo("jqmaster_store_up", "gauge", (), "1 if the store answers this master."),
        MetricInfo("jqmaster_store_memory_bytes", "gauge", (), "Memory that the store uses."),
        MetricInfo("jqmaster_store_memory_max_bytes", "gauge", (),
                   "Memory that the store may use. Missing if there is no limit."),
        MetricInfo("jqmaster_faults", "gauge", ("check",), "1 for each check of /readyz that fails."),
        MetricInfo("jqmaster_duty_faults", "gauge", ("duty",),
                   "1 for each side duty, of this master or of the leader, that keeps failing. Jobs are not affected."),
        MetricInfo("jqmaster_certificate_expiry_timestamp_seconds", "gauge", ("setting",),
                   "Expiry of the certificate in the file of this setting, in Unix time. Missing without TLS."),
        MetricInfo("jqmaster_settings_version", "gauge", (),
                   "Version of the run-time changes of settings. 0: no setting was changed."),
        MetricInfo("jqmaster_info", "gauge", ("version", "master_id", "node_id"),
                   "Always 1. The labels describe this master."),
    )
}  # fmt: skip
