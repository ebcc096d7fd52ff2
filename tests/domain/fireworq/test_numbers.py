"""Numbers and IDs follow from each other."""

import pytest

from jqmaster.domain.fireworq.numbers import MAX_NUMBER, id_of, number_at, number_of
from jqmaster.domain.ids import is_id, new_id

pytestmark = pytest.mark.req("J19")

NOW_MS = 1_790_000_000_000


def test_a_number_leads_to_an_id_and_back() -> None:
    for low in (0, 1, 4095):
        number = number_at(NOW_MS, low)
        job_id = id_of(number)
        assert job_id is not None
        assert is_id(job_id)
        assert number_of(job_id) == number


def test_numbers_and_ids_have_the_order_of_time() -> None:
    numbers = [number_at(NOW_MS + ms, low) for ms in (0, 1, 1000) for low in (0, 7, 4095)]
    ids = [id_of(number) or "" for number in numbers]
    assert numbers == sorted(set(numbers))
    assert ids == sorted(set(ids))


def test_an_id_has_the_instant_of_its_number() -> None:
    job_id = id_of(number_at(NOW_MS, 5))
    assert job_id is not None
    assert int(job_id.replace("-", "")[:12], 16) == NOW_MS


def test_every_client_can_hold_a_number() -> None:
    year_2089_ms = 3_755_000_000_000
    assert NOW_MS < number_at(NOW_MS, 4095) < number_at(year_2089_ms, 4095) <= MAX_NUMBER == 2**53 - 1
    assert number_at(0, 9) == 9
    assert number_at(NOW_MS, 4096) == number_at(NOW_MS, 0)


def test_other_numbers_and_ids_lead_nowhere() -> None:
    assert id_of(-1) is None
    assert id_of(2**53) is None
    assert number_of(new_id()) is None
    assert number_of("17") is None
