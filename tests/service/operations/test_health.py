"""Facts of the health of the queue that need no store: dead workers, what is new about failures, and paused jobs."""

from dataclasses import replace
from typing import Any, cast

import pytest

from jqmaster.domain.constraints.weight import Weight
from jqmaster.domain.content.content import no_access
from jqmaster.domain.jobs.failures import HOUR_MS, GroupedFailures, Ignore
from jqmaster.domain.jobs.seen_version import SeenVersion
from jqmaster.domain.operations.health_facts import FullLimit
from jqmaster.domain.operations.tally import NameCounts
from jqmaster.domain.workers.worker import Worker, WorkerSpec
from jqmaster.service.constraints.reader import KeyUsage, Usage
from jqmaster.service.operations import health
from jqmaster.service.operations.full_limits import FullLimits, full_limit
from jqmaster.store.constraints.documents import StoredConstraint
from jqmaster.store.constraints.usage import GateUsage
from tests.support.constraints import constraint

pytestmark = pytest.mark.req("D32")

NOW_MS = 1_800_000_000_000
SPEC = WorkerSpec(None, ("mail",), 4, "node-1", 7, {}, "1", "s" * 32)
FRESH = Worker("w-1", SPEC, NOW_MS - 1_000, NOW_MS, is_draining=False, is_detached=False, busy=0)
DEAD = replace(
    FRESH, id="w-0", last_seen_ms=NOW_MS - 60_000, is_detached=True, detached_by="silence", registered_at_ms=0
)
GROUP = GroupedFailures("0" * 16, "mail", "error", "", 3, NOW_MS - 600_000, NOW_MS, "")


def test_a_detached_worker_is_told_until_another_one_has_taken_its_place() -> None:
    def dead(*workers: Worker) -> list[tuple[str, str]]:
        return [(one.name, one.successor) for one in health._detached(workers, NOW_MS, 5_000)]

    assert dead(DEAD) == [("node-1:7", "")]
    successor = replace(FRESH, spec=replace(SPEC, pid=8))
    assert dead(DEAD, successor) == [("node-1:7", "node-1:8")]
    assert dead(replace(DEAD, busy=1), FRESH) == [("node-1:7", "")]
    assert dead(DEAD, replace(FRESH, spec=replace(SPEC, names=("other",)))) == [("node-1:7", "")]
    assert dead(DEAD, replace(FRESH, spec=replace(SPEC, node_id="node-2"))) == [("node-1:7", "")]
    assert dead(replace(DEAD, detached_by="operator")) == []
    # Those that hold jobs come first.
    assert dead(DEAD, replace(DEAD, busy=2, spec=replace(SPEC, node_id="", pid=0)))[0] == ("w-0", "")


def test_names_that_no_live_worker_runs() -> None:
    ready = {"mail": 3, "report": 7, "none": 0, "jq.x": 1}
    served = health._served([FRESH, replace(DEAD, spec=replace(SPEC, names=("report",)))], NOW_MS, 5_000)
    assert health._unserved(ready, served) == [("report", 7)]


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
def test_the_health_tells_which_failures_are_new(changes: dict[str, Any], words: str) -> None:
    kind = health._newest_kind([replace(GROUP, **changes)], NOW_MS)
    assert (kind.text(NOW_MS) if kind else "").endswith(words)
    assert bool(kind) is bool(words)


def test_an_ignored_group_is_not_minded() -> None:
    ignored = replace(GROUP, ignore=Ignore("ann", NOW_MS, 0, "", (), 10))
    assert ignored.is_ignored(NOW_MS)


async def test_a_limit_that_stays_full_says_since_when_and_one_that_is_full_for_moments_is_no_finding() -> (
    None
):
    # A constraint without a key needs no further reads.
    limits = FullLimits(cast(Any, None), no_access(()))
    stored = StoredConstraint(constraint("mails", concurrency=1), "0" * 16, 0, 0)

    async def since(*held: int) -> list[list[int | None]]:
        """Read the constraint every 4 s."""
        nonlocal now_ms
        found = []
        for count in held:
            now_ms += 4_000
            usage = Usage(count, 1, None, 0, None, True, None, held=count)
            found.append([one.found.since_ms for one in await limits.follow([(stored, usage)], now_ms)])
        return found

    now_ms = 0
    assert await since(0, 3, 3, 0, 3, 3, 0) == [[]] * 7
    assert await since(3, 3, 3, 3) == [[], [], [None], [None]]
    began_ms = now_ms - 12_000
    assert (await since(*[3] * 20))[-1] == [began_ms]
    # A single job that gets through ends nothing.
    assert await since(0, 0) == [[began_ms], []]


@pytest.mark.req("D30")
@pytest.mark.parametrize(
    ("limits", "usage", "expected"),
    [
        # One running job of 5 units: the limit is not full by the number of jobs, but by their units.
        ({"concurrency": 5}, {"running": 1, "running_units": 5_000}, {"slots": 5, "running": 5}),
        (
            {"rate": (100, 60_000)},
            {"starts": None, "window_units": 98_200_500},
            {"rate": (100, 60_000), "used": 98_200.5},
        ),
        # The fuller one of two limits is the one that holds.
        (
            {"concurrency": 10, "rate": (100, 60_000)},
            {"running": 3, "running_units": 2_000, "window_units": 99_000},
            {"rate": (100, 60_000), "used": 99},
        ),
        (
            {"concurrency": 10, "rate": (100, 60_000)},
            {"running": 3, "running_units": 9_900, "window_units": 10_000},
            {"slots": 10, "running": 9.9},
        ),
    ],
)
def test_a_full_limit_of_units_is_told_in_units(
    limits: dict[str, Any], usage: dict[str, Any], expected: dict[str, Any]
) -> None:
    counted = {
        "running": None,
        "starts": None,
        "shadow_delayed": 0,
        "next_opening_ms": NOW_MS,
        "keys": None,
        **usage,
    }
    one = constraint("model", weight=Weight(unit="tokens"), **limits)
    stored = StoredConstraint(one, "0" * 16, NOW_MS, NOW_MS)
    found = full_limit(stored, Usage(waiting=9, held=7, is_in_force=True, **counted), None)
    assert found == FullLimit("model", 7, 7, unit="tokens", opens_at_ms=NOW_MS, **expected)
    # The same at one value of a key.
    keyed = replace(
        stored, constraint=constraint("model", weight=Weight(unit="tokens"), key="argument", **limits)
    )
    gate = GateUsage(
        "", "a", 3, counted["running"], counted["starts"], None, None, is_open=False,
        running_units=counted.get("running_units"), window_units=counted.get("window_units"),
    )  # fmt: skip
    value = KeyUsage(gate, "a", keyed.constraint.limits_of(None))
    at_value = full_limit(keyed, Usage(waiting=9, held=7, is_in_force=True, **counted), value)
    assert at_value == FullLimit("model", 7, 3, "a", unit="tokens", **expected)


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
    assert health._backlog([*points[:6], None, *points[6:]]) == [2, 3, 4, 5, None, 6, 7, 8, 9, 10]
    assert health._backlog([*points[:-2], NameCounts(), points[-1]]) == []
    assert health._backlog([]) == []
    assert health._failed([NameCounts(failed=2), None, NameCounts(failed=3)]) == 5
