"""Each proof does what it says, and rejects a run without events."""

from typing import Any

import pytest

from tests.chaos.checker import check
from tests.chaos.history import Epoch, Fault, History, Terms
from tests.chaos.plan import PRODUCTION, Scale
from tests.chaos.proofs import PROOFS, RERUN_S
from tests.chaos.test_checker import Story


def broken(name: str, history: History) -> list[str]:
    _, bounds = PROOFS[name].judge(history, check(history).figures)
    return [text for holds, text in bounds if not holds]


def killed_worker(rerun_after_s: float) -> History:
    story = Story()
    story.push()
    story.run(end_s=None)
    story.fault("kill", "worker-1", 1.2, 40.0, dead_s=1.21)
    story.run(start_s=1.2 + rerun_after_s, end_s=30.0, attempt=2, worker=2)
    return story.h


def leader_fault(kind: str, gap_s: float, epochs: int = 2) -> History:
    story = Story()
    story.usual("a", 1.0)
    story.fault(kind, "master-1", 1.5, 1.6, is_leader=True)
    for n in range(10):
        story.usual(f"b{n}", 1.3 + gap_s + n)
    story.h.epochs += [Epoch(1.0 + n, 10 + n, f"nonce-{n}", "m") for n in range(epochs)]
    return story.h


@pytest.mark.parametrize("name", PROOFS)
@pytest.mark.parametrize("scale", [Scale(), PRODUCTION], ids=["short", "production"])
def test_the_plan_has_as_many_faults_as_asked_for_and_ends_with_the_load(name: str, scale: Scale) -> None:
    order = PROOFS[name].make(1, 5, scale)
    assert len(order.plan) == 5
    assert [p.at_s for p in order.plan] == sorted(p.at_s for p in order.plan)
    assert all(p.at_s >= 1 and p.at_s + p.for_s <= order.duration_s + scale.grace_s for p in order.plan)
    assert PROOFS[name].make(1, 5, scale) == order, "a seed replays it"


def test_outages_of_the_store_are_shorter_than_the_lease_and_jobs_far_longer_than_all() -> None:
    order = PROOFS["long-jobs"].make(1, 50, PRODUCTION)
    assert all(p.for_s < PRODUCTION.lease_s for p in order.plan)
    assert max(p.for_s for p in order.plan if p.target == "store") > PRODUCTION.lease_s / 2
    assert order.mix.long_s[0] >= 10 * max(PRODUCTION.lease_s, PRODUCTION.grace_s, PRODUCTION.leader_ttl_s)


def test_a_killed_worker_stays_away_for_longer_than_its_jobs_may_wait() -> None:
    assert all(p.for_s > RERUN_S for p in PROOFS["worker-kill"].make(1, 20, PRODUCTION).plan)


@pytest.mark.parametrize("name", PROOFS)
def test_nothing_happened_is_no_proof(name: str) -> None:
    assert broken(name, History(terms=Terms(), load_ended_s=20.0))


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("leader-kill", leader_fault("kill", 2.0), leader_fault("kill", 6.0)),
        ("leader-stop", leader_fault("stop", 2.0), leader_fault("stop", 2.0, epochs=1)),
        ("worker-kill", killed_worker(15.0), killed_worker(21.0)),
    ],
)
def test_a_figure_out_of_its_bounds_is_told(name: str, good: Any, bad: Any) -> None:
    assert broken(name, good) == []
    assert len(broken(name, bad)) == 1


def test_a_second_start_of_a_long_job_is_told() -> None:
    story = Story()
    story.usual()
    story.h.faults.append(Fault("stop", "store", 1.2, 1.25))
    assert broken("long-jobs", story.h) == []
    story.run(start_s=5.0, end_s=6.0, attempt=2)
    assert broken("long-jobs", story.h) == ["no job is started a second time"]
