"""How a worker of several namespaces divides its slots."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.support.each import for_each
from worker_sdk import Worker, configure
from worker_sdk.worker.puller import ASKED_S, Puller
from worker_sdk.worker.shared_slots import (
    WANTED_S,
    SharedSlots,
    SlotShare,
    checked_shares,
    slots_by_namespace,
)

pytestmark = pytest.mark.req("D29")


@pytest.fixture(autouse=True)
def no_configuration(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("URL", "NAMESPACE", "WORKER_NAMESPACES"):
        monkeypatch.delenv(f"JQMASTER_{name}", raising=False)
    yield
    configure()


@for_each(
    ("shares", "max_jobs", "slots"),
    [
        ({"shop": 3, "mail": 1}, 4, [3, 1]),
        ({"shop": 3, "mail": 1}, 8, [6, 2]),
        ({"shop": 3, "mail": 1}, 10, [7, 3]),
        ({"shop": 1, "mail": 1}, 5, [3, 2]),
        # Each gets at least one.
        ({"shop": 1000, "mail": 1}, 2, [1, 1]),
        ({"shop": 1000, "mail": 1}, 50, [49, 1]),
    ],
)
def test_slots_are_divided_by_the_shares(shares: dict[str, int], max_jobs: int, slots: list[int]) -> None:
    assert list(slots_by_namespace(shares, max_jobs).values()) == slots


@for_each(
    ("given", "message"),
    [
        ("shop", "give a map or a list"),
        ([], "at least one"),
        ({}, "at least one"),
        (["shop", "shop"], "named twice"),
        (["Shop"], "2 to 39 of the characters"),
        ([7], "a name is a text"),
        ({"shop": 0}, "share of shop must be an integer from 1 to 1000, not 0"),
        ({"shop": 1.5}, "not 1.5"),
        ({"shop": True}, "not True"),
        ([f"team-{n}" for n in range(21)], "21 are given, and one worker works in 20 at most"),
    ],
)
def test_faulty_namespaces_are_refused(given: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        checked_shares(given)


def test_a_list_gives_equal_shares() -> None:
    assert checked_shares(["shop", "mail"]) == {"shop": 1, "mail": 1}


def test_a_worker_refuses_what_cannot_be(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="max_jobs is 2, but each of 3 namespaces needs at least one slot"):
        Worker(namespaces=["shop", "mail", "post"], max_jobs=2)._config()
    with pytest.raises(ValueError, match="give the address without /ns/shop"):
        Worker("http://a/ns/shop", namespaces=["shop", "mail"])._config()
    # The namespace of the process is for its pushers.
    monkeypatch.setenv("JQMASTER_NAMESPACE", "other")
    assert Worker("http://a", namespaces=["shop", "mail"])._config().namespaces == {"shop": 5, "mail": 5}


def test_the_variable_names_namespaces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JQMASTER_WORKER_NAMESPACES", "shop=3 mail")
    assert Worker().namespaces == {"shop": 3, "mail": 1}
    assert Worker(namespaces=["post"]).namespaces == {"post": 1}
    for text, message in (
        ("shop=x", "expected NAME or NAME=SHARE"),
        ("a=1 a=2", "named twice"),
        ("shop=", "expected NAME"),
    ):
        monkeypatch.setenv("JQMASTER_WORKER_NAMESPACES", text)
        with pytest.raises(ValueError, match=message):
            Worker()


class Pool:
    """Four slots: three of `shop` and one of `mail`."""

    def __init__(self) -> None:
        self.now_s = 100.0
        slots = SharedSlots(4, now_s=lambda: self.now_s)
        self.shop, self.mail = slots.add(3), slots.add(1)
        self.pressed: list[str] = []
        self.shop.on_pressure = lambda: self.pressed.append("shop")
        self.mail.on_pressure = lambda: self.pressed.append("mail")

    def use(self, shop: int, mail: int) -> None:
        self.shop.occupying = dict.fromkeys(map(str, range(shop)))
        self.mail.occupying = dict.fromkeys(map(str, range(mail)))

    def rooms(self) -> tuple[int, int]:
        return self.shop.room(), self.mail.room()

    def offers(self) -> tuple[int, int]:
        return self.shop.offered(), self.mail.offered()


@for_each(
    ("used", "rooms", "offers"),
    [
        ((0, 0), (4, 4), (4, 4)),
        ((0, 2), (2, 2), (3, 4)),
        ((2, 2), (0, 0), (3, 2)),
        ((0, 4), (0, 0), (3, 4)),
        ((4, 0), (0, 0), (4, 1)),
    ],
)
def test_idle_slots_are_lent(used: tuple[int, int], rooms: tuple[int, int], offers: tuple[int, int]) -> None:
    pool = Pool()
    pool.use(*used)
    assert (pool.rooms(), pool.offers()) == (rooms, offers)


def test_wanted_slots_are_kept_until_the_share_is_reached() -> None:
    pool = Pool()
    pool.use(0, 4)
    pool.shop.want(5)
    assert pool.pressed == ["mail"], "its masters learn at once that it has fewer"
    assert pool.offers() == (3, 1)
    assert pool.mail.has_to_yield
    assert not pool.shop.has_to_yield
    pool.use(0, 3)
    assert pool.rooms() == (1, 0)
    pool.use(1, 3)
    assert pool.rooms() == (0, 0)
    pool.use(3, 0)
    # The share is reached, and the other has its own.
    assert (pool.shop.wanted, pool.rooms()) == (0, (1, 1))
    pool.mail.want(1)
    assert pool.rooms() == (0, 1)


def test_a_slot_is_not_kept_for_ever() -> None:
    pool = Pool()
    pool.use(0, 3)
    pool.shop.want(1)
    assert pool.rooms() == (1, 0)
    pool.now_s += WANTED_S
    assert pool.rooms() == (1, 1)
    pool.shop.want(1)
    pool.shop.want(0)
    assert pool.rooms() == (1, 1)


async def test_a_namespace_that_polls_gets_all_slots_that_become_free_at_once_up_to_its_share() -> None:
    pool = Pool()
    parts: Any = dict.fromkeys(("client", "masters", "identity", "executor", "on_unknown_worker", "beat_now"))
    puller = Puller(admission=cast(Any, SimpleNamespace(share=pool.shop, is_draining=False)), **parts)
    pool.use(0, 4)
    puller._keep_share(0)
    # It does not know yet whether it has jobs, because it cannot ask.
    pool.use(0, 1)
    assert pool.rooms() == (3, 0)
    puller._keep_share(3)
    assert pool.rooms() == (3, 0)
    # Its call waits, so it has none.
    pool.now_s += ASKED_S
    assert pool.rooms() == (3, 3)
    puller._may_have_jobs = False
    puller._keep_share(3)
    assert pool.rooms() == (3, 3)


def test_a_free_slot_is_told_to_the_others() -> None:
    pool = Pool()
    told: list[SlotShare] = []
    pool.shop.on_room = lambda: told.append(pool.shop)
    pool.mail.on_room = lambda: told.append(pool.mail)
    pool.mail.released()
    assert told == [pool.shop]
