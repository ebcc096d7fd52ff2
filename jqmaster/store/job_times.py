"""Durations of the states of a job in the store."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class JobTimes:
    """`lease_ms`: lease of a started job, until it is renewed. `offer_ms`: lease of a job that was pushed or polled but
    has not started. `grace_ms`: what a job gets after its timeout. `result_ttl_ms`: life of a kept result;
    `result_grace_ms`: life of a result after it was fetched."""

    lease_ms: int
    offer_ms: int
    grace_ms: int
    result_ttl_ms: int
    result_grace_ms: int
