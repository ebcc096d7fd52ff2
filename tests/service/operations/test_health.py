"""Facts of the health of the queue that need no store: dead workers, what is new about failures, and paused jobs."""

from dataclasses import replace
from typing import Any

import pytest

from jqmaster.domain.jobs.failures import HOUR_MS, GroupedFailures, Ignore, SeenVersion
from jqmaster.domain.operations.tally import NameCounts
from jqmaster.domain.workers.worker import Worker, WorkerSpec
from jqmaster.service.operations import health
from jqmaster.store.operations.history import BacklogSample, Waiting

pytestmark = pytest.mark.req("D32")

NOW_MS = 1_800_000_000_000
SPEC = WorkerSpec(None, ("mail",), 4, "node-1", 7, {}, "1", "s" * 32)
FRESH = Worker("w-1", SPEC, NOW_MS - 1_000, NOW_MS, is_draining=False, is_detached=False, busy=0)
DEAD = replace(
    FRESH, id="w-0", last_seen_ms=NOW_MS - 60_000, is_detached=True, detached_by="silence", registered_at_ms=0
)
GROUP = GroupedFailures("0" * 16, "mail", "error", "", 3, NOW_MS - 600_000, NOW_MS, "")


def test_a_dead_worker_is_told_until_another_one_has_taken_its_place() -> None:
    def dead(*workers: Worker) -> list[str]:
        return [one.name for one in health._dead(workers, NOW_MS, 5_000)]

    assert dead(DEAD) == ["node-1:7"]
    assert dead(DEAD, FRESH) == []
    assert dead(replace(DEAD, busy=1), FRESH) == ["node-1:7"]
    assert dead(DEAD, replace(FRESH, spec=replace(SPEC, names=("other",)))) == ["node-1:7"]
    assert dead(DEAD, replace(FRESH, spec=replace(SPEC, node_id="node-2"))) == ["node-1:7"]
    assert dead(replace(DEAD, detached_by="operator")) == []


def test_names_that_no_live_worker_runs() -> None:
    names = {
        "mail": Waiting(3, 1),
        "report": Waiting(7, 1),
        "none": Waiting(0, 0),
        "jq.x": Waiting(1, 1),
    }
    sample = BacklogSample(NOW_MS, Waiting(11, 1), names)
    served = health._served([FRESH, replace(DEAD, spec=replace(SPEC, names=("report",)))], NOW_MS, 5_000)
    found = dict(health._unserved(sample, served))
    assert found["report"] == 7
    assert not found.keys() & {"mail", "none", "jq.x"}
    assert health._unserved(None, served) == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "A new kind of failure (error) began 10 min ago."),
        ({"versions": [SeenVersion("2.3", 3, NOW_MS - 500_000, NOW_MS)]}, "on version 2.3 of its workers."),
        ({"versions": [SeenVersion("2.2", 3, NOW_MS - 2 * HOUR_MS, NOW_MS)]}, "10 min ago."),
        ({"first_seen_ms": 0, "regressed_ms": NOW_MS - 5}, "came back after a day without it."),
        ({"first_seen_ms": 0}, ""),
    ],
)
def test_what_is_new_about_failures(changes: dict[str, Any], words: str) -> None:
    text = health._newest_kind([replace(GROUP, **changes)], NOW_MS)
    assert text.endswith(words)
    assert bool(text) is bool(words)


def test_an_ignored_group_is_not_minded() -> None:
    ignored = replace(GROUP, ignore=Ignore("ann", NOW_MS, 0, "", (), 10))
    assert ignored.is_ignored(NOW_MS)


@pytest.mark.parametrize(
    ("matcher", "found"),
    [
        ({"field": "name", "op": "eq", "value": "mail"}, ("name", "mail", "")),
        ({"field": "tags", "op": "eq", "value": "import"}, ("tag", "import", "")),
        (
            {"all": [{"field": "name", "op": "eq", "value": "mail"},
                     {"field": "argument.tenant", "op": "eq", "value": 42}]},
            ("value", "42", "argument.tenant"),
        ),
        ({"field": "name", "op": "glob", "value": "mail.*"}, ("matcher", "", "")),
    ],
)  # fmt: skip
def test_the_jobs_of_a_pause(matcher: dict[str, Any], found: tuple[str, str, str]) -> None:
    assert health._jobs_of(matcher) == found


def test_the_backlog_of_complete_minutes() -> None:
    points: list[NameCounts | None] = [NameCounts(backlog=n) for n in range(12)]
    assert health._backlog(points) == list(range(1, 11))
    assert health._backlog([*points[:6], None, *points[6:]]) == []
    assert health._failed([NameCounts(failed=2), None, NameCounts(failed=3)]) == 5
