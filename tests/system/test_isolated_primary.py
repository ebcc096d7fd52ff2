"""A store's primary is cut off from all but the master beside it, while pushes to that master go on."""

from pathlib import Path

import pytest

from jqmaster.config import Durability
from tests.chaos.isolation import Isolation, Round, judge
from tests.support import long, real_time

pytestmark = [pytest.mark.system, pytest.mark.timeout(120), real_time.PROCESSES]


async def one_round(directory: Path, durability: Durability, *, asks_sentinels: bool = False) -> Round:
    async with Isolation.begun(directory, durability) as isolation:
        return await isolation.isolate(is_by_hand=True, asks_sentinels=asks_sentinels)


@pytest.mark.req("D20")
@pytest.mark.parametrize(
    "asks_sentinels",
    [False, *long.left_out(True)],
    ids=["knows only it", "is cut off from the Sentinels"],
)
async def test_nothing_accepted_is_lost_though_a_master_writes_to_an_isolated_primary(
    tmp_path: Path, asks_sentinels: bool
) -> None:
    done = await one_round(tmp_path, "fsync+quorum", asks_sentinels=asks_sentinels)
    # The speed is for the proof to judge, on an otherwise idle machine.
    shown, bounds = judge([done], resume_s=60)
    assert [text for holds, text in bounds if not holds] == [], shown


# The control experiment: it proves that the others would notice.
@pytest.mark.long
async def test_without_a_quorum_the_same_loses_what_was_accepted_there(tmp_path: Path) -> None:
    shown, _ = judge([await one_round(tmp_path, "fsync")])
    assert shown["lost"] > 0, shown
    assert shown["accepted_by_the_isolated"] > 0, shown
