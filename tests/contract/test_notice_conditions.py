"""A condition of notices is whole: it is in the one list, is looked at, and has its texts."""

from pathlib import Path
from typing import Any, cast

import pytest

from jqmaster.domain.notices.conditions import CONDITIONS, When
from tests.support.notices import Notices
from tests.support.store import StoreWorld

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.req("M5")


def test_each_condition_is_in_the_list() -> None:
    assert list(CONDITIONS) == list(When)


async def test_each_condition_is_looked_at(world: StoreWorld) -> None:
    evaluation = Notices(world).evaluation
    momentary, lasting = cast(Any, evaluation)._momentary, cast(Any, evaluation)._lasting
    assert set(momentary._looks) == {when for when, one in CONDITIONS.items() if not one.is_lasting}
    assert set(lasting._looks) == {when for when, one in CONDITIONS.items() if one.is_lasting}


@pytest.mark.parametrize("when", When)
def test_each_condition_has_its_texts(when: When) -> None:
    for language in ("en", "ja"):
        texts = (ROOT / "jqmaster" / "web" / "lang" / f"{language}_notices.js").read_text("utf-8")
        assert f'"notices.when.{when}"' in texts
    assert f"| `{when}` |" in (ROOT / "docs" / "notices.md").read_text("utf-8")
    assert list((ROOT / "jqmaster" / "web").glob(f"*/pages/{CONDITIONS[when].page}.js"))
