"""Steps in checkpoints, as people see them."""

from typing import Any

import msgpack
import pytest

from jqmaster.domain.jobs.steps import EXTENSION, JobStep, steps_of
from worker_sdk.worker import kept_steps as of_worker


def checkpoint(told: Any, code: int = EXTENSION) -> bytes:
    return bytes(msgpack.packb(msgpack.ExtType(code, msgpack.packb(told))))


@pytest.mark.req("S7", "D21")
def test_the_steps_that_a_worker_kept_are_told_in_order() -> None:
    done = [
        of_worker.DoneStep("charge", 1_700_000_000_000, 250, b"\x01"),
        of_worker.DoneStep("mail", 1_700_000_001_000, 3, b"\xc0"),
    ]
    kept = of_worker.joined(msgpack.packb("row 5"), done)
    assert steps_of(kept) == [
        JobStep("charge", 1_700_000_000_000, 250),
        JobStep("mail", 1_700_000_001_000, 3),
    ]


def test_members_that_later_workers_append_are_ignored() -> None:
    told = checkpoint([None, [["charge", 5, 1, b"", "more"]], "more"])
    assert steps_of(told) == [JobStep("charge", 5, 1)]


@pytest.mark.parametrize(
    "kept",
    [
        None, b"", msgpack.packb(5), msgpack.packb({"row": 1}), msgpack.packb(msgpack.ExtType(9, b"\x90")), b"\xc1",
        checkpoint(5), checkpoint([None]), checkpoint([None, 5]), checkpoint([None, [5]]),
        checkpoint([None, [["charge", "today", 1]]]), checkpoint([None, [[b"charge", 1, 1]]]),
        checkpoint([None, [["charge", 1, 0.5]]]), checkpoint([None, [["charge", 1]]]),
    ],
)  # fmt: skip
def test_a_checkpoint_without_steps_has_none(kept: bytes | None) -> None:
    assert steps_of(kept) == []


def test_instants_that_no_date_can_show_are_moved_to_the_nearest_one() -> None:
    told = checkpoint([None, [["late", 1 << 62, -5], ["early", -1, 1]]])
    assert steps_of(told) == [JobStep("late", 253_402_300_799_999, 0), JobStep("early", 0, 1)]


def test_master_and_worker_agree_on_the_mark_of_steps() -> None:
    assert of_worker.EXTENSION == EXTENSION
