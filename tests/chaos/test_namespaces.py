"""The short form of `make chaos NAMESPACES=20`: three stores, one of each main kind of fault, every promise checked."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.chaos.namespaces_run import PLAIN, run_installation
from tests.chaos.plan import INSTALLATION, opening_of_installation
from tests.chaos.run import Order, table
from tests.support import real_time

pytestmark = [pytest.mark.system, pytest.mark.timeout(180), real_time.PROCESSES]

LOAD_S = 22.0
SCALE = replace(INSTALLATION, masters=2, workers=3, pulling=1, namespaces=6, lease_s=4.0, leader_ttl_s=3.0)
MIX = replace(PLAIN, rate_per_s=12.0, long_s=(2.0, 3.0))


@pytest.mark.req("D29", "D20")
async def test_a_fault_of_one_store_reaches_no_namespace_of_another(tmp_path: Path) -> None:
    plan = opening_of_installation(SCALE, LOAD_S)
    order = Order(seed=1, duration_s=LOAD_S, plan=plan, scale=SCALE, mix=MIX, drain_s=60.0)
    history, report = await run_installation(order, tmp_path)
    figures = report.figures
    assert [str(violation) for violation in report.violations] == [], table(figures)
    # The run was meaningful: faults hit, each namespace worked, and calls failed for these faults.
    assert figures["faults_bitten"] >= len(plan) - 2, table(figures)
    assert all(len(one.jobs) > 10 for one in history.namespaces.values()), table(figures)
    assert figures["states"]["succeeded"] > 100
    assert figures["failed_calls"]
    assert figures["ready_asked"] > 50
