"""Checks webhook promises: each end to be reported is reported, signed, under one ID, and no other is."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from tests.chaos.evidence import FINISHED, READING_S, RunsOf, Violation
from tests.chaos.history import Delivery, EndState, History


def check_webhooks(history: History, runs_of: RunsOf) -> Iterator[Violation]:
    wants = {c.job_id for c in history.calls if c.kind == "push" and (c.job or {}).get("notify_url")}
    told: dict[str, list[Delivery]] = defaultdict(list)
    for delivery in history.deliveries:
        told[delivery.job_id].append(delivery)
    for own in history.own_jobs.values():
        if own.state not in FINISHED:
            yield Violation("delivery not over", own.id, own.state)
        elif own.state != "succeeded":
            # In a run, no receiver refuses permanently.
            yield Violation("delivery given up", own.id, f"{own.state}, {own.cause}")
    for job_id, deliveries in told.items():
        job = history.jobs.get(job_id)
        if job_id not in wants or job is None:
            yield Violation("webhook of nobody", job_id, f"{len(deliveries)} of them")
            continue
        for one in deliveries:
            yield from _one(history, runs_of, job, one)
        if len({one.webhook_id for one in deliveries}) > 1:
            yield Violation("one end, two webhooks", job_id, f"{sorted({d.webhook_id for d in deliveries})}")
        yield from _repeats(history, deliveries)
    for job_id in wants & history.jobs.keys():
        is_over = history.jobs[job_id].state in FINISHED
        if is_over and not any(_is_taken(one) for one in told[job_id]):
            yield Violation(
                "webhook lost", job_id, f"it is {history.jobs[job_id].state}, and nobody was told"
            )


def _one(history: History, runs_of: RunsOf, job: EndState, one: Delivery) -> Iterator[Violation]:
    if not one.is_signed:
        yield Violation("webhook not signed", job.id, one.webhook_id)
    if one.webhook_id not in history.own_jobs:
        yield Violation("webhook of no delivery", job.id, one.webhook_id)
    if one.state != job.state:
        yield Violation("wrong end told", job.id, f"{one.state}; it is {job.state}")
    run = next((run for run in runs_of.get(job.id, ()) if run.token == job.token), None)
    if job.state == "succeeded" and run and one.at_s < run.start_s - READING_S:
        yield Violation("told before its end", job.id, f"{run.start_s - one.at_s:.3f} s before its run began")


def _repeats(history: History, deliveries: list[Delivery]) -> Iterator[Violation]:
    """A taken webhook may be sent again only if a fault prevented recording the answer."""
    margin_s = history.terms.recovery_s
    for first, second in pairwise(sorted(deliveries, key=lambda one: one.at_s)):
        is_excused = any(
            fault.from_s <= second.at_s and fault.to_s >= first.at_s - margin_s for fault in history.faults
        )
        if _is_taken(first) and not is_excused:
            yield Violation(
                "webhook repeated", first.job_id, f"{second.at_s - first.at_s:.3f} s after it was taken"
            )


def _is_taken(one: Delivery) -> bool:
    return 200 <= one.status < 300
