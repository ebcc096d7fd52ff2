"""Digests of uniqueness keys, and the time for which a job holds one."""

import msgpack
import pytest

from jqmaster.domain.jobs.unique import Unique, UniqueScope, unique_digest

pytestmark = pytest.mark.req("S7")


def digest(key: str | None, argument: object = None, name: str = "work") -> str:
    return unique_digest(name, key, msgpack.packb(argument), msgpack.unpackb)


def test_a_key_belongs_to_its_name() -> None:
    assert digest("a") == digest("a", argument=1)
    assert len({digest("a"), digest("b"), digest("a", name="other"), digest(None)}) == 4


def test_without_a_key_equal_arguments_are_one() -> None:
    assert digest(None, {"a": 1, "b": 2}) == digest(None, {"b": 2, "a": 1})
    assert digest(None, 1) == digest(None, 1.0)
    assert digest(None, {"a": 1}) != digest(None, {"a": 2})


def test_an_argument_that_cannot_be_decoded_is_equal_to_itself() -> None:
    first, second = (unique_digest("work", None, raw, msgpack.unpackb) for raw in (b"\xc1", b"\xc1\x01"))
    assert first == unique_digest("work", None, b"\xc1", msgpack.unpackb)
    assert first != second


def test_only_a_window_holds_its_key_for_a_time() -> None:
    window = Unique("d", scope=UniqueScope.WINDOW, ttl_ms=500)
    assert (window.until_ms(1_000), window.is_debounce) == (1_500, False)
    debounced = Unique.debounce("d", "k", wait_ms=10, max_ms=0)
    assert (debounced.until_ms(1_000), debounced.is_debounce) == (0, True)
