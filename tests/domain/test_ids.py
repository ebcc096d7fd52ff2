import time
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jqmaster.domain.ids import TOKEN_BYTES, is_id, new_id, new_tokens


@pytest.mark.req("J1")
def test_ids_are_uuid7_in_order_of_their_making_and_never_twice() -> None:
    ids = [new_id() for _ in range(5_000)]
    assert ids == sorted(ids)
    assert len(set(ids)) == len(ids)
    assert all(map(is_id, ids))
    parsed = uuid.UUID(ids[0])
    assert parsed.version == 7
    assert abs((parsed.int >> 80) - time.time() * 1000) < 10_000


def test_most_of_an_id_is_unguessable() -> None:
    """IDs of one process share time and counter; the rest must not repeat."""
    assert len({new_id()[-12:] for _ in range(1_000)}) == 1_000


@given(st.text(max_size=40) | st.uuids().map(str))
def test_only_a_canonical_uuid_is_an_id(text: str) -> None:
    try:
        parsed = uuid.UUID(text)
    except ValueError:
        assert not is_id(text)
    else:
        assert is_id(text) is (parsed.version in range(1, 9) and str(parsed) == text)


@pytest.mark.req("J1")
def test_any_version_of_a_uuid_may_be_chosen() -> None:
    space, name = uuid.NAMESPACE_URL, "feed:42:7"
    chosen = [uuid.uuid1(), uuid.uuid3(space, name), uuid.uuid4(), uuid.uuid5(space, name)]
    assert all(is_id(str(one)) for one in chosen)
    assert not is_id(str(uuid.UUID(int=0)))
    assert not is_id(str(uuid.UUID(int=2**128 - 1)))


@pytest.mark.parametrize(
    "change", [str.upper, lambda i: i + "\n", lambda i: i.replace("-", ""), lambda i: f"{{{i}}}"]
)
def test_other_spellings_are_refused(change: object) -> None:
    assert not is_id(change("01890a5d-ac96-774b-bcce-b302099a8057"))  # type: ignore[operator]
    assert is_id("01890a5d-ac96-774b-bcce-b302099a8057")


@pytest.mark.req("M3")
def test_tokens_are_random() -> None:
    drawn = new_tokens(1_000)
    assert len(drawn) == 1_000 * TOKEN_BYTES == 16_000
    assert len({drawn[i : i + 16] for i in range(0, len(drawn), 16)}) == 1_000
    assert new_tokens(0) == b""
