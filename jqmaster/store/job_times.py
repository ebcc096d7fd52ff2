"""Durations of the states of a job in the store."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class JobTimes:
    """Durations from the settings.

    * `lease_ms`: the lease of a started job.
    * `offer_ms`: the lease of a job that was offered but has not started.
    * `grace_ms`: the time that a job gets after its timeout.
    * `result_ttl_ms`: lifetime of a result.
    * `result_grace_ms`: lifetime of a result after it was fetched.
    """

    lease_ms: int
    offer_ms: int
    grace_ms: int
    result_ttl_ms: int
    result_grace_ms: int
