"""IDs of jobs: UUIDv7, in the order in which a process makes them."""

import threading
import time
from uuid import UUID

import pytest

from tests.support.interrupts import interrupted
from worker_sdk.pusher.ids import COUNT_BITS, IdSequence, new_job_id

pytestmark = pytest.mark.req("S10")


def test_an_id_is_a_uuid_of_version_7_with_the_time_in_front() -> None:
    before_ms = time.time_ns() // 1_000_000
    made = UUID(new_job_id())
    assert (made.version, made.variant) == (7, "specified in RFC 4122")
    assert before_ms - 1 <= made.int >> 80 <= time.time_ns() // 1_000_000 + 1


def test_ids_sort_in_the_order_in_which_they_were_made() -> None:
    made = [new_job_id() for _ in range(20_000)]
    assert made == sorted(set(made))


def test_ids_grow_also_when_the_clock_was_set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    first = new_job_id()
    an_hour_ago_ns = time.time_ns() - 3_600 * 10**9
    monkeypatch.setattr(time, "time_ns", lambda: an_hour_ago_ns)
    later = [new_job_id() for _ in range(3)]
    assert [first, *later] == sorted({first, *later})


def test_threads_make_different_ids() -> None:
    made: list[str] = []

    def make() -> None:
        made.extend([new_job_id() for _ in range(2_000)])

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(set(made)) == 8_000


@pytest.mark.timeout(60)
def test_a_handler_of_signals_makes_ids_in_the_midst_of_another() -> None:
    inside: list[str] = []
    made: list[str] = []
    with interrupted(lambda: inside.append(new_job_id()), every_s=0.0005):
        while len(inside) < 200:
            made += [new_job_id() for _ in range(100)]
    assert made == sorted(made)
    assert len({*made, *inside}) == len(made) + len(inside)


def test_a_count_that_is_full_goes_on_in_the_next_millisecond(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: 1_800_000_000_000 * 10**6)
    sequence = IdSequence(first=2**COUNT_BITS - 2)
    made = [sequence.next() for _ in range(4)]
    assert made == sorted(set(made))
    times_ms = [UUID(one).int >> 80 for one in made]
    assert times_ms == [1_800_000_000_000] * 2 + [1_800_000_000_001] * 2
