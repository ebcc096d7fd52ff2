"""The frame of the application's own code at which a job failed, and the groups of failures that it makes."""

import traceback
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jqmaster.domain.jobs.failure_group import failure_group_id, failure_group_ids
from jqmaster.domain.jobs.stack_frame import MAX_READ, frame_of, kind_of

pytestmark = pytest.mark.req("P8")

PYTHON = """Traceback (most recent call last):
  File "/app/shop/payments.py", line {line}, in capture
    raise CardDeclined(customer)
  File "/usr/lib/python3.13/site-packages/stripe/http.py", line 9, in post
    raise_for_status(answer)
  File "/usr/lib/python3.13/json/decoder.py", line 90, in decode
    raise JSONDecodeError(text)
shop.errors.CardDeclined: José Peña
"""
JAVASCRIPT = """CardDeclined: José Peña
    at post (/app/node_modules/got/index.js:10:3)
    at Payments.capture (file:///app/dist/payments.js:44:11)
    at process.processTicksAndRejections (node:internal/process/task_queues:95:5)
"""


def error(trace: str, kind: str = "shop.errors.CardDeclined") -> bytes:
    return bytes(msgpack.packb({"type": kind, "message": "José Peña", "traceback": trace}))


def test_the_innermost_frame_of_the_application_is_found() -> None:
    frame = frame_of(error(PYTHON.format(line=12)))
    assert frame is not None
    assert (frame.file, frame.function, frame.code) == (
        "shop/payments.py",
        "capture",
        "raise CardDeclined(customer)",
    )
    frame = frame_of(error(JAVASCRIPT))
    assert frame is not None
    assert (frame.file, frame.function, frame.code) == ("dist/payments.js", "Payments.capture", "")


def test_the_number_of_the_line_and_the_place_of_installation_do_not_matter() -> None:
    elsewhere = PYTHON.replace("/app/", "/home/ada/src/")
    assert kind_of(error(PYTHON.format(line=12))) == kind_of(error(elsewhere.format(line=99)))
    assert kind_of(error(PYTHON.format(line=1).replace("capture", "refund"))) != kind_of(
        error(PYTHON.format(line=1))
    )


def test_the_last_of_chained_exceptions_counts() -> None:
    chained = PYTHON + "\nDuring handling of the above exception, another exception occurred:\n\n"
    chained += (
        'Traceback (most recent call last):\n  File "/app/shop/orders.py", line 3, in pay\n    raise Unpaid\n'
    )
    frame = frame_of(error(chained))
    assert frame is not None
    assert (frame.file, frame.function) == ("shop/orders.py", "pay")


def test_a_real_trace_is_read() -> None:
    try:
        int("x")
    except ValueError as exc:
        frame = frame_of(error("".join(traceback.format_exception(exc))))
    assert frame is not None
    assert (frame.file, frame.function) == ("jobs/test_stack_frame.py", "test_a_real_trace_is_read")
    assert frame.code == 'int("x")'


@pytest.mark.parametrize(
    "value", [None, b"", b"\xc1", msgpack.packb(7), msgpack.packb({"type": "E"}), error("free text")]
)
def test_without_a_trace_there_is_no_frame(value: bytes | None) -> None:
    assert frame_of(value) is None


@given(st.text(alphabet='File "/a.py\n ,in at()1:', max_size=300))
def test_no_trace_is_slow_or_breaks_it(text: str) -> None:
    frame_of(error(text * (2 * MAX_READ // max(len(text), 1))))


def groups(*messages: str, frame: str = "shop\0pay") -> list[Any]:
    return [failure_group_id("pay", "error", message, frame) for message in messages]


def test_failures_of_one_place_are_one_group_whatever_data_their_messages_hold() -> None:
    declined = "CardDeclined: カードが拒否されました: "
    assert len(set(groups(declined + "José Peña", declined + "山田 太郎"))) == 1
    # Without a frame, the text is all there is.
    assert len(set(groups(declined + "José Peña", declined + "山田 太郎", frame=""))) == 2


def test_groups_still_tell_faults_apart() -> None:
    assert len(set(groups("HTTP 404 for order 1", "HTTP 404 for order 2", "HTTP 500 for order 1"))) == 2
    assert len(set(groups("KeyError: 'vat_id'", "KeyError: 'name'"))) == 2
    assert groups("x") != groups("x", frame="other")


def test_a_failure_is_found_under_the_ids_of_earlier_releases() -> None:
    ids = failure_group_ids("pay", "error", "order 7 is gone", "shop\0pay")
    assert ids[0] == failure_group_id("pay", "error", "order 9 is gone", "shop\0pay")
    assert ids[1:] == failure_group_ids("pay", "error", "order 7 is gone")
