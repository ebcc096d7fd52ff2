"""The texts of the page on which people answer a challenge."""

import pytest

from jqmaster.api.challenges.page_texts import length_text

pytestmark = pytest.mark.req("P10")


def test_the_time_that_is_left_has_one_unit_in_the_language_of_the_reader() -> None:
    lengths = (40_000, 17 * 60_000, 23 * 3_600_000, 4 * 86_400_000)
    assert [length_text("en", ms) for ms in lengths] == ["40 s", "17 min", "23 h", "4 days"]
    assert [length_text("ja", ms) for ms in lengths] == ["40 秒", "17 分", "23 時間", "4 日"]
