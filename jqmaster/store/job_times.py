"""Durations of the states of a job in the store."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class JobTimes:
    """`lease_ms`: of a started job, until it is renewed. `offer_ms`: of a job that was pushed or polled and not yet
    started. `grace_ms`: what a job gets after its timeout. `result_ttl_ms`: of a kept result; `result_grace_ms`: of one
    that was fetched."""

    lease_ms: int
    offer_ms: int
    grace_ms: int
    result_ttl_ms: int
    result_grace_ms: int
