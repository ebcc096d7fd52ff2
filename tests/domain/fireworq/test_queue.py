"""Queues: their defaults and bounds, and what they are here."""

import math

import pytest

from jqmaster.domain.fireworq.queue import FireworqQueue, QueueTermsError
from tests.support.each import for_each

pytestmark = pytest.mark.req("J19")


def test_omitted_fields_have_the_defaults_of_fireworq() -> None:
    queue = FireworqQueue("mail")
    queue.check()
    assert queue.document == {"name": "mail", "polling_interval": 200, "max_workers": 20}
    assert queue.starts is None


def test_a_queue_with_a_limit_of_dispatches_polls_as_fireworq_does() -> None:
    queue = FireworqQueue("mail", 500, 10, 2.5, 5)
    queue.check()
    assert queue.document == {
        "name": "mail",
        "polling_interval": 100,
        "max_workers": 10,
        "max_dispatches_per_second": 2.5,
        "max_burst_size": 5,
    }
    assert queue.starts == (5, 2.0)


def test_a_burst_in_less_than_a_millisecond_counts_several() -> None:
    starts = FireworqQueue("fast", max_dispatches_per_second=8000.0, max_burst_size=1).starts
    assert starts is not None
    assert starts.period_s >= 0.001
    assert starts.limit / starts.period_s == pytest.approx(8000)


def test_the_names_of_a_queue_are_its_own() -> None:
    queue = FireworqQueue("mail")
    assert (queue.job_name, queue.object_name) == ("fireworq/mail", "fireworq:mail")


@for_each(
    "queue, word",
    [
        (FireworqQueue("a/b"), "name"),
        (FireworqQueue(""), "name"),
        (FireworqQueue("q", max_workers=-1), "max_workers"),
        (FireworqQueue("q", max_workers=100_001), "max_workers"),
        (FireworqQueue("q", polling_interval=-1), "polling_interval"),
        (FireworqQueue("q", max_burst_size=1), "both"),
        (FireworqQueue("q", max_dispatches_per_second=1.0), "both"),
        (FireworqQueue("q", max_dispatches_per_second=math.inf, max_burst_size=1), "above 0"),
        (FireworqQueue("q", max_dispatches_per_second=-1.0, max_burst_size=1), "above 0"),
        (FireworqQueue("q", max_dispatches_per_second=1.0, max_burst_size=-1), "max_burst_size"),
        (FireworqQueue("q", max_dispatches_per_second=1e-9, max_burst_size=1), "31 days"),
        (FireworqQueue("q", max_dispatches_per_second=1.0, max_burst_size=100_001), "at most 100000"),
    ],
)
def test_terms_that_cannot_be_kept_are_refused(queue: FireworqQueue, word: str) -> None:
    with pytest.raises(QueueTermsError, match=word):
        queue.check()
