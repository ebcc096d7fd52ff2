"""The expected stop of a move, and whether its data fit."""

import pytest

from jqmaster.domain.namespaces.move import MoveSize, fits

pytestmark = pytest.mark.req("D29")


def test_the_expected_stop_grows_with_keys_and_with_bytes() -> None:
    none = MoveSize(0, 0).stop_ms
    assert none >= 5_000
    assert MoveSize(1_000_000, 0).stop_ms - none == 250_000
    assert MoveSize(0, 100 << 20).stop_ms - none == 4_000


def test_data_fit_if_a_fifth_of_the_free_memory_stays_free() -> None:
    assert fits(MoveSize(1, 800), 1_000, 2_000)
    assert not fits(MoveSize(1, 801), 1_000, 2_000)
    for used, most in ((None, 2_000), (1_000, None), (1_000, 0)):
        assert fits(MoveSize(1, 10**12), used, most)
