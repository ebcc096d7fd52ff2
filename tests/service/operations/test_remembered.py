"""Values that many callers ask for."""

from jqmaster.service.operations.remembered import Remembered
from tests.support.clock import ManualClock


async def test_a_value_that_takes_longer_than_its_life_is_computed_once_for_callers_in_a_row() -> None:
    clock = ManualClock()
    computed = 0

    async def compute() -> int:
        nonlocal computed
        computed += 1
        clock.jump(10)
        return computed

    value = Remembered(clock, 5.0, compute)
    assert [await value.get() for _ in range(3)] == [1, 1, 1]
    clock.jump(5)
    assert await value.get() == 2
