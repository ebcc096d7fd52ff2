"""The order example: its ledger balances while masters and workers are killed, and an unbalanced ledger is reported."""

import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest

from examples.orders.ledger import compare
from examples.orders.outside import Faults
from tests.support import long, real_time
from tests.support.processes import ROOT
from tests.support.server import StoreServer

pytestmark = pytest.mark.req("P1", "P2", "P3", "P5", "P6")

JOB_ID = "01989fa2-0000-7000-8000-000000000001"


@pytest.mark.system
@pytest.mark.sized
@real_time.PROCESSES
@pytest.mark.timeout(400)
def test_the_ledger_balances_while_masters_and_workers_are_killed() -> None:
    store = StoreServer()
    try:
        store.start()
        faults = ["--kill-every", str(long.size(8, 4)), "--masters", "2", "--answer-within", "3"]
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "examples.orders",
                "--orders",
                str(long.size(20, 60)),
                *faults,
                "--within",
                "300",
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=ROOT,
            env={**os.environ, "JQMASTER_REDIS_URL": store.url},
            timeout=380,
            text=True,
            check=False,
        )
    finally:
        store.stop()
    assert done.returncode == 0, done.stdout[-3000:]
    assert "the ledger balances" in done.stdout
    assert "killed: " in done.stdout, done.stdout[-3000:]
    # Every tenth order is expensive, and every second of those is too expensive.
    assert "the clerk answered on the pages of questions: " in done.stdout
    assert "failed REJECTED" in done.stdout


def job(state: str = "succeeded", **fields: Any) -> Mapping[str, Any]:
    return {"id": JOB_ID, "state": state, **fields}


def entry(outcome: str = "done", **fields: Any) -> Mapping[str, Any]:
    return {"step": "order", "order": 1, "key": JOB_ID, "outcome": outcome, **fields}


TAKEN = ("order.take", 1)


def test_a_ledger_balances_if_jobs_and_book_say_the_same() -> None:
    refused = job("failed", code="NO_SUCH_ARTICLE")
    jobs = {
        TAKEN: job(),
        ("order.stock", 1): refused,
        ("order.ship", 1): job("skipped"),
        ("order.approve", 1): job(),
    }
    ledger = compare(jobs, [entry(), entry("NO_SUCH_ARTICLE", step="stock")])
    assert ledger.faults == []
    assert "failed NO_SUCH_ARTICLE" in ledger.text()


@pytest.mark.parametrize(
    ("jobs", "book", "fault"),
    [
        ({TAKEN: job("retrying")}, [], "order.take of order 1 is not over: retrying"),
        ({TAKEN: job("unknown")}, [entry()], "is not over: unknown"),
        ({TAKEN: job()}, [entry(), entry(key="other")], "order has order 1 2 times"),
        ({TAKEN: job()}, [entry(key="other")], "from a job that nobody enqueued"),
        ({TAKEN: job()}, [], "succeeded, and is missing in the book"),
        ({TAKEN: job()}, [entry("NO_SUCH_ARTICLE")], "succeeded, and is NO_SUCH_ARTICLE in the book"),
        ({TAKEN: job("failed", code="lost")}, [entry()], "failed with lost, and is done in the book"),
        ({TAKEN: job("skipped")}, [entry()], "was skipped, and is done in the book"),
        ({}, [entry()], "which nobody enqueued"),
    ],
)
def test_a_ledger_that_does_not_balance_is_told(
    jobs: Mapping[tuple[str, int], Mapping[str, Any]], book: list[Mapping[str, Any]], fault: str
) -> None:
    assert any(fault in one for one in compare(jobs, book).faults)


def test_faults_of_the_other_systems_can_be_turned_off_and_up() -> None:
    assert set(vars(Faults().times(0)).values()) == {0.0}
    assert set(vars(Faults().times(1000)).values()) == {1.0}
