from collections.abc import Sequence
from dataclasses import replace

import pytest

from jqmaster.domain.ids import new_id
from jqmaster.domain.workers.silence import CrowdRules, crowd_last_seen_ms
from jqmaster.domain.workers.worker import DetachedBy, Worker, WorkerSpec

NOW_MS = 1_000_000
RULES = CrowdRules(stale_ms=5_000, share=0.3, least=3)

pytestmark = pytest.mark.req("D12")


def worker(
    seen_ago_ms: int, *, detached_by: DetachedBy | None = None, registered_ago_ms: int = 500_000
) -> Worker:
    spec = WorkerSpec(None, ("a",), 1, "n", 1, {}, "1", "s" * 32)
    return Worker(
        new_id(), spec, NOW_MS - registered_ago_ms, NOW_MS - seen_ago_ms, False, detached_by is not None, 0, detached_by
    )  # fmt: skip


def crowd(seen_ago_ms: Sequence[int], fresh: int = 0, after_ms: int = 0) -> int | None:
    workers = [*map(worker, seen_ago_ms), *(worker(10) for _ in range(fresh))]
    found = crowd_last_seen_ms(workers, now_ms=NOW_MS, after_ms=after_ms, rules=RULES)
    return None if found is None else NOW_MS - found


@pytest.mark.parametrize(
    ("silent", "fresh", "is_crowd"),
    [
        (3, 0, True), (3, 6, True), (3, 7, False), (2, 0, False), (4, 9, True), (4, 10, False), (150, 350, False),
        (151, 349, True), (0, 10, False),
    ],
)  # fmt: skip
def test_a_crowd_is_three_at_least_and_more_than_the_share(silent: int, fresh: int, is_crowd: bool) -> None:
    assert (crowd([6_000] * silent, fresh) is not None) is is_crowd


def test_a_worker_heard_within_its_time_is_not_silent() -> None:
    assert crowd([5_000] * 10) is None
    assert crowd([5_001] * 10) == 5_001


def test_only_those_who_fell_silent_at_once_are_a_crowd() -> None:
    assert crowd([6_000, 12_000, 18_000]) is None
    assert crowd([6_000, 8_500, 11_000]) == 6_000
    assert crowd([6_000, 30_000, 31_000, 32_000], fresh=3) == 30_000


def test_a_crowd_that_was_seen_before_is_no_news_and_a_second_one_is() -> None:
    silent = [30_000, 31_000, 32_000]
    assert crowd(silent, after_ms=NOW_MS - 30_000) is None
    assert crowd([*silent, 7_000], after_ms=NOW_MS - 30_000) is None
    assert crowd([*silent, 7_000, 7_001, 7_002], after_ms=NOW_MS - 30_000) == 7_000


def test_a_worker_detached_by_people_or_with_a_successor_is_expected_to_be_silent() -> None:
    by: list[DetachedBy | None] = ["operator", "operator", "successor", None, None]
    gone = [worker(6_000, detached_by=one) for one in by]
    assert crowd_last_seen_ms(gone, now_ms=NOW_MS, after_ms=0, rules=RULES) is None
    silent = [worker(6_000, detached_by="silence") for _ in range(3)]
    assert crowd_last_seen_ms(silent, now_ms=NOW_MS, after_ms=0, rules=RULES) is not None


def test_those_who_came_after_it_do_not_hide_a_crowd() -> None:
    """A supervisor starts as many workers again as died."""
    silent = [worker(6_000) for _ in range(3)]
    new = [worker(10, registered_ago_ms=2_000) for _ in range(20)]
    old = [worker(10) for _ in range(6)]
    assert crowd_last_seen_ms([*silent, *new, *old], now_ms=NOW_MS, after_ms=0, rules=RULES) is not None


@pytest.mark.req("M13")
def test_the_workers_of_a_master_that_died_are_no_crowd() -> None:
    silent = [worker(6_000) for _ in range(3)]
    assert crowd_last_seen_ms(silent, now_ms=NOW_MS, after_ms=0, rules=RULES) is not None
    of_targets = [replace(one, spec=replace(one.spec, target="shop")) for one in silent]
    assert crowd_last_seen_ms(of_targets, now_ms=NOW_MS, after_ms=0, rules=RULES) is None
