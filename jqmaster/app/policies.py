"""The values that components take from the settings. They are computed again whenever the settings change.

A component gets its live value when it is built, and reads `current` at each use. Handlers read the settings
directly from `Services.settings`. A test ensures that no component keeps a copy of a value."""

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from jqmaster.api.encoding.validator import ScanLimits
from jqmaster.api.http.connection_room import RoomLimits
from jqmaster.api.http.limits import RequestLimits, ServerLimits
from jqmaster.config import Settings
from jqmaster.domain.content.content import full_access, no_access
from jqmaster.domain.jobs.job import FINISHED, JobState
from jqmaster.domain.jobs.outcome import ExpiryRules
from jqmaster.domain.jobs.parts import PartLimits
from jqmaster.domain.logs.lines import LogLimits
from jqmaster.domain.operations.master import Pace
from jqmaster.domain.workers.breaker import BreakerPolicy
from jqmaster.domain.workers.silence import CrowdRules
from jqmaster.live_value import LiveValue
from jqmaster.net import descriptors
from jqmaster.runtime.duties.failure_detector import DetectorPolicy
from jqmaster.runtime.duties.grace import GracePolicy
from jqmaster.runtime.duties.reaper import ReaperPolicy
from jqmaster.service.identity.sessions import LoginPolicy
from jqmaster.service.jobs.why import WhyPolicy
from jqmaster.service.operations.live_settings import LiveSettings
from jqmaster.store.definitions.definitions import KeptRuns
from jqmaster.store.events.events import KeptEvents
from jqmaster.store.job_times import JobTimes
from jqmaster.store.jobs.retention import Retention

# Difference between a grace period and a lease. A grace period lasts longer, so that live workers can report.
GRACE_EXTRA_S: Final = 2.0
# The minimum time for which partial results are kept. It applies even if results are not kept, because partial
# results are for callers that listen while the job runs.
MIN_PARTS_KEPT_MS: Final = 60_000


class Policies:
    """The live values of one process. Components that need the same value share it."""

    def __init__(self, live: LiveSettings) -> None:
        self.job_times = live.derive(job_times)
        self.stale_ms = live.derive(stale_ms)
        self.breaker = live.derive(breaker)
        self.pace = live.derive(lambda s: Pace(s.leader_ttl_s))
        self.max_intake_bytes = live.derive(
            # The intake must always have room for at least one body.
            lambda s: max(s.max_intake_bytes, s.max_body_bytes)
        )
        self.max_push_jobs = live.derive(lambda s: s.max_push_jobs)
        self.max_result_bytes = live.derive(lambda s: s.max_result_bytes)
        self.content = live.derive(lambda s: ScanLimits(s.max_nesting, s.max_argument_nodes))
        self.lease_s = live.derive(lambda s: s.lease_ms / 1000)
        self.heartbeat_s = live.derive(lambda s: s.heartbeat_interval_s)
        self.push_timeout_s = live.derive(lambda s: s.push_timeout_s)
        self.failed_registrations = live.derive(lambda s: s.failed_registrations_per_minute)
        self.stale_tokens_s = live.derive(lambda s: s.stale_tokens_s)
        self.max_connections = live.derive(max_connections)
        self.max_streams = live.derive(lambda s: s.max_streams)
        # Content that readers of the audit log, and listeners of the live stream, may see at most.
        self.audience = live.derive(lambda s: full_access(s.redact_paths))
        self.listeners = live.derive(lambda s: no_access(s.redact_paths))
        self.why = live.derive(why)
        self.logins = live.derive(logins)
        self.grace = live.derive(grace)
        self.reaper = live.derive(reaper)
        self.failure_detector = live.derive(failure_detector)
        self.retention = live.derive(retention)
        self.kept_runs = live.derive(lambda s: KeptRuns(s.definition_runs_max, _ms(s.definition_runs_s)))
        self.parts = live.derive(part_limits)
        self.logs = live.derive(log_limits)
        self.log_retention_ms = live.derive(lambda s: _ms(s.retention_logs_s))
        self.log_archive_wait_ms = live.derive(lambda s: _ms(s.log_archive_wait_s))
        self.batch_life_ms = live.derive(lambda s: _ms(s.batch_life_s))
        self.batch_retention_ms = live.derive(lambda s: _ms(s.batch_retention_s))
        self.kept_events = live.derive(kept_events)
        self.server = ServerLimits(live.derive(room_limits), live.derive(RequestLimits.of))

    def with_leases(self, least_ms: Callable[[], int]) -> "Policies":
        """Return these values for a namespace with a minimum duration of leases. `least_ms` returns this minimum,
        and is called at each use."""
        policies = copy.copy(self)
        policies.job_times = ProlongedTimes(self.job_times, least_ms)
        return policies


class ProlongedTimes(LiveValue[JobTimes]):
    """Durations, with a lease that lasts at least `least_ms`."""

    def __init__(self, times: LiveValue[JobTimes], least_ms: Callable[[], int]) -> None:
        self._times = times
        self._least_ms = least_ms

    @property
    def current(self) -> JobTimes:  # type: ignore[override]
        times, least_ms = self._times.current, self._least_ms()
        return times if times.lease_ms >= least_ms else replace(times, lease_ms=least_ms)


def job_times(s: Settings) -> JobTimes:
    return JobTimes(
        s.lease_ms, s.offer_ms, _ms(s.timeout_grace_s), _ms(s.result_ttl_s), _ms(s.result_grace_s)
    )


def part_limits(s: Settings) -> PartLimits:
    return PartLimits(s.max_parts, s.max_parts_bytes, max(_ms(s.result_ttl_s), MIN_PARTS_KEPT_MS))


def log_limits(s: Settings) -> LogLimits:
    return LogLimits(s.max_log_line_bytes, s.max_log_bytes, s.max_logs_bytes)


def kept_events(s: Settings) -> KeptEvents:
    return KeptEvents(
        dedupe_ms=_ms(s.event_dedupe_s),
        most=s.events_max,
        life_ms=_ms(s.events_s),
        most_runs=s.definition_runs_max,
        runs_life_ms=_ms(s.definition_runs_s),
        max_argument_bytes=s.max_argument_bytes,
    )


def stale_ms(s: Settings) -> int:
    return _ms(s.worker_stale_s)


def breaker(s: Settings) -> BreakerPolicy:
    return BreakerPolicy(s.breaker_failures, s.breaker_first_open_s, s.breaker_longest_open_s)


def max_connections(s: Settings) -> int:
    return min(s.max_connections, descriptors.for_clients())


def room_limits(s: Settings) -> RoomLimits:
    return RoomLimits.of(
        max_clients=max_connections(s),
        unproven_share=s.unproven_share,
        address_share=s.address_share,
        # Clients and workers together may use all file descriptors that are available for connections. So the
        # limit of clients does not limit workers.
        max_clients_and_workers=descriptors.for_clients(),
    )


def why(s: Settings) -> WhyPolicy:
    return WhyPolicy(stale_ms(s), s.offer_ms + _ms(s.timeout_grace_s))


def logins(s: Settings) -> LoginPolicy:
    return LoginPolicy(_ms(s.session_life_s), _ms(s.session_idle_s), s.login_attempts_per_minute)


def grace(s: Settings) -> GracePolicy:
    return GracePolicy(
        grace_s=max(s.lease_ms / 1000, s.worker_stale_s, s.leader_ttl_s) + GRACE_EXTRA_S,
        trust_s=s.leader_ttl_s,
        crowd=CrowdRules(stale_ms(s), s.crowd_share, s.crowd_least),
    )


def reaper(s: Settings) -> ReaperPolicy:
    return ReaperPolicy(
        ExpiryRules(stale_ms(s), s.max_losses, s.lease_ms, _ms(s.alone_wait_s)),
        _ms(s.timeout_grace_s),
        s.offer_ms,
    )


def failure_detector(s: Settings) -> DetectorPolicy:
    return DetectorPolicy(stale_ms(s), _ms(s.worker_forget_s), s.ping_timeout_s, s.max_missed_pings)


def retention(s: Settings) -> Mapping[JobState, Retention]:
    # The last number limits the jobs that are kept only because other jobs need them. It equals the limit of
    # failed jobs, because people retry failed jobs.
    over = Retention(_ms(s.retention_succeeded_s), s.retention_succeeded_max, s.retention_failed_max)
    return {
        **dict.fromkeys(FINISHED, over),
        JobState.FAILED: Retention(_ms(s.retention_failed_s), s.retention_failed_max),
    }


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
