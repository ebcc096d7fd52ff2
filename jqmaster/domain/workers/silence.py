"""Detects crowds: many workers that fall silent at once. The cause is then probably not in the workers, but in a
switch, a proxy or the masters."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

from jqmaster.domain.workers.worker import Worker


@dataclass(frozen=True, slots=True)
class CrowdRules:
    """The definition of a crowd: within `stale_ms`, at least `least` workers fell silent, and more than `share` of the
    workers that were alive."""

    stale_ms: int
    share: float
    least: int


def crowd_last_seen_ms(
    workers: Iterable[Worker], *, now_ms: int, after_ms: int, rules: CrowdRules
) -> int | None:
    """Return the time at which the last worker of a crowd was last heard. None: no crowd fell silent.

    Ignore these workers, because their silence is expected or has been handled:

    * workers that were last heard at `after_ms` or before,
    * workers that an operator detached, or that have a successor,
    * the built-in workers of masters, which fall silent together with their master.
    """
    members = [
        worker
        for worker in workers
        if worker.detached_by in (None, "silence") and not worker.spec.is_built_in
    ]
    seen = sorted(worker.last_seen_ms for worker in members)
    registered = sorted(worker.registered_at_ms for worker in members)
    silent = seen[bisect_right(seen, after_ms) : bisect_left(seen, now_ms - rules.stale_ms)]
    found = None
    first = 0
    for last, last_ms in enumerate(silent):
        while last_ms - silent[first] > rules.stale_ms:
            first += 1
        count = last - first + 1
        came_later = len(registered) - bisect_right(registered, last_ms)
        were_fresh = len(seen) - bisect_left(seen, silent[first]) - came_later
        if count >= rules.least and count > rules.share * were_fresh:
            found = last_ms
    return found
