"""The short form of `make chaos`: real processes, one of each main kind of fault, every promise checked."""

from pathlib import Path

import pytest

from tests.chaos.forked_pusher import read_calls
from tests.chaos.load import Mix
from tests.chaos.plan import Scale, opening
from tests.chaos.run import Order, run, table
from tests.support import real_time

pytestmark = [pytest.mark.system, pytest.mark.timeout(180), real_time.PROCESSES]

LOAD_S = 17.0
SCALE = Scale(
    masters=2, workers=4, plain=1, pulling=1, lease_s=2.0, leader_ttl_s=1.5, heartbeat_s=0.33, stale_s=1.33
)
MIX = Mix(
    rate_per_s=25.0,
    clients=3,
    long_s=(2.5, 5.0),
    poison=0.0,
    hostile=0.1,
    outside=0.2,
    told=0.2,
    blocking=0.1,
    tasks=0.3,
    spending=0.3,
)


@pytest.mark.req("M1", "M3", "M6", "D1", "D2", "D5", "D7", "D9", "S7")
async def test_every_promise_holds_while_each_part_dies_stands_still_and_is_cut_off(tmp_path: Path) -> None:
    order = Order(seed=1, duration_s=LOAD_S, plan=opening(SCALE, LOAD_S), scale=SCALE, mix=MIX, drain_s=60.0)
    _, report = await run(order, tmp_path)
    figures = report.figures
    assert [str(violation) for violation in report.violations] == [], table(figures)
    # The run was meaningful: faults hit, work went on, and some of it was repeated.
    assert figures["faults_bitten"] >= len(order.plan) - 2, table(figures)
    assert figures["jobs_accepted"] > 100
    assert figures["states"]["succeeded"] > 100
    assert figures["epochs"] >= 2
    forked = read_calls(tmp_path / "calls-forked")
    assert sum(call.outcome == "done" for call in forked) > 50, table(figures)
    assert figures["unique"]["done"] > 20
    assert figures["unique"].keys() & {"duplicate", "refused", "replaced"}
    assert figures["events"]["done"] > 10
    assert figures["callbacks"]["taken"] > 10
    assert figures["callbacks"].keys() & {"conflict", "over"}
    assert figures["callback_runs"] > 10
    assert figures["webhooks"]["204"] > 10
    assert figures["blocking"] > 3
    assert figures["steps"] > 3
    assert figures["gathered"] > 0
    assert figures["unsealed"] > 1
    assert figures["backfilled"] > 3
    assert figures["spending"]["settled"] > 5
    assert figures["spending"]["edits"] > 1
    answered = {key.partition(" ")[0] for key in figures["hostile_and_backfill"] if not key.endswith(" 0")}
    assert {"backfill", "/api/jobs", "/api/jobs/preview", "/api/workers"} <= answered
    assert figures["odd_values"]["done"] > 0
    assert figures["odd_values"]["refused"] > 0
