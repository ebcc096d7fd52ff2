"""Constraint documents as the store keeps them, also those of other releases."""

from typing import Any

import msgpack
import pytest

from jqmaster.domain.constraints.constraint import ConditionalOverride, GateLimits
from jqmaster.domain.constraints.limit_kinds import Reservation
from jqmaster.domain.matching.matcher import parse_matcher
from jqmaster.errors import DamagedError
from jqmaster.store.constraints.documents import StoredConstraint, decode_constraint, encode_constraint
from jqmaster.store.named_documents import ETAG_LENGTH
from tests.support.constraints import ConstrainedWorld, constraint
from tests.support.store import StoreWorld

DOCUMENT: dict[str, Any] = {
    "cid": "0123abcd",
    "enabled": True,
    "mode": "enforce",
    "matcher": {"field": "name", "op": "exists"},
    "key": "argument.host",
    "concurrency": 3,
    "rate": [5, 1000],
    "paused": None,
    "max_backlog": None,
    "fair": False,
    "overrides": [["a", 1, None, False], ["b", None, [7, 2000], True]],
    "created_at_ms": 1,
    "changed_at_ms": 2,
}


def stored(document: dict[str, Any]) -> bytes:
    return b"e" * ETAG_LENGTH + bytes(msgpack.packb(document))


@pytest.mark.req("M12")
def test_a_kind_of_limit_that_a_document_lacks_does_not_limit() -> None:
    """A former release did not know it, neither in the constraint nor in its overrides."""
    former = {
        name: value for name, value in DOCUMENT.items() if name not in ("max_backlog", "fair", "paused")
    }
    former["overrides"] = [override[:3] for override in DOCUMENT["overrides"]]
    read, whole = decode_constraint("c", stored(former)), decode_constraint("c", stored(DOCUMENT))
    assert [o.limits.paused for o in whole.constraint.overrides] == [False, True]
    assert [o.limits.paused for o in read.constraint.overrides] == [False, False]
    for name in ("cid", "concurrency", "rate", "paused", "max_backlog", "fair"):
        assert getattr(read.constraint, name) == getattr(whole.constraint, name)


def test_an_override_with_a_limit_of_a_later_release_cannot_be_read() -> None:
    """If the limit were dropped, jobs would start that must not."""
    later = {**DOCUMENT, "overrides": [["a", 1, None, False, 9]]}
    with pytest.raises(DamagedError, match="cannot be read"):
        decode_constraint("c", stored(later))


@pytest.mark.req("M12")
def test_a_rule_for_new_constraints_does_not_make_a_stored_one_unreadable() -> None:
    """A former release took a condition with a concurrency within the reserve."""
    pro, free = (
        parse_matcher({"field": "argument.plan", "op": "eq", "value": plan}) for plan in ("pro", "free")
    )
    one = constraint(
        "c",
        key="argument.host",
        concurrency=10,
        reserve=(Reservation(pro, 5),),
        conditions=(ConditionalOverride(free, GateLimits(concurrency=5)),),
    )
    raw = encode_constraint(StoredConstraint(one, "e" * ETAG_LENGTH, 1, 2))
    read = decode_constraint("c", raw).constraint
    assert (read.reserve[0].concurrency, read.conditions[0].limits.concurrency) == (5, 5)


async def test_only_what_changed_is_decoded_again(world: StoreWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[str] = []

    def counted(name: str, raw: bytes) -> StoredConstraint:
        decoded.append(name)
        return decode_constraint(name, raw)

    monkeypatch.setattr("jqmaster.store.constraints.constraints.decode_constraint", counted)
    limits, store = ConstrainedWorld(world), world.rule_store
    b = constraint("b", concurrency=2)
    await limits.put(constraint("a", concurrency=1), b)
    first = await store.load()
    decoded.clear()
    assert [s.constraint for s in (await store.load()).stored] == [s.constraint for s in first.stored]
    assert decoded == []
    await limits.edit(b, concurrency=3)
    decoded.clear()
    assert [s.constraint.concurrency for s in (await store.load()).stored] == [1, 3]
    assert set(decoded) <= {"b"}
    await limits.remove("a")
    assert [s.constraint.name for s in (await store.load()).stored] == ["b"]
    await limits.remove("b")
    assert (await store.load()).stored == ()
