"""The checker of runs with namespaces names the fault of each bad story, and accepts the good ones."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.history import Call, EndedAttempt, Epoch, Fault, Silence
from tests.chaos.namespaces_check import BACK_S, check_installation
from tests.chaos.namespaces_history import InstallationHistory, Place
from tests.chaos.test_checker import Story

URLS = {"http://one": "master-1", "http://two": "master-2", "http://three": "master-3"}
HOME = {"default": "store", "shop": "store-b", "mail": "store-c"}


class Tale:
    """Builds the history of three namespaces on three stores. Everything not mentioned goes well."""

    def __init__(self) -> None:
        self.of = {name: Story() for name in HOME}
        self.h = InstallationHistory(
            namespaces={name: story.h for name, story in self.of.items()},
            places=[Place(name, store, 0.0) for name, store in HOME.items()],
            masters=dict(URLS),
        )
        for n, (name, story) in enumerate(self.of.items()):
            story.usual(f"{name}-1", at_s=1.0 + n)
            self.h.copies[name] = {f"{name}-1": [HOME[name]]}
            self.h.epochs[name] = {store: [] for store in HOME.values()}
            self.epoch(name, HOME[name], 0.5, 1, holder="master-1")

    def fault(self, kind: str, target: str, from_s: float, to_s: float, **said: Any) -> None:
        self.h.faults.append(Fault(kind, target, from_s, to_s, **said))

    def epoch(
        self, name: str, store: str, at_s: float, number: int, *, nonce: str = "", holder: str = ""
    ) -> None:
        self.h.epochs[name][store].append(Epoch(at_s, number, nonce or f"nonce-{number}", holder))

    def call(
        self, name: str, at_s: float, status: int = 503, *, kind: str = "push", url: str = "http://one",
        took_s: float = 0.1, code: str = "store_unavailable",
    ) -> None:  # fmt: skip
        job = {"id": f"{name}-2", "name": "work", "argument": {"n": 1}} if kind == "push" else None
        path = "" if name == "default" else f"/ns/{name}"
        outcome: Any = "refused" if status else "unknown"
        self.of[name].h.calls.append(
            Call(kind, f"{name}-2", at_s, at_s + took_s, outcome, status, job, url=f"{url}{path}", code=code)
        )


# --- good ones


def all_is_well(t: Tale) -> None:
    pass


def refused_while_its_own_store_is_away(t: Tale) -> None:
    t.fault("kill", "store-b", 5.0, 6.0)
    t.call("shop", 5.5)
    t.call("shop", 6.0 + BACK_S - 0.1, kind="ready")


def refused_by_a_master_that_is_cut_off_from_its_store(t: Tale) -> None:
    t.fault("cut off", "master-1>store-b", 5.0, 8.0)
    t.call("shop", 6.0)


def no_answer_of_a_master_that_was_killed(t: Tale) -> None:
    t.fault("kill", "master-1", 5.0, 6.0)
    t.call("mail", 5.2, 0, code="")


def a_master_that_waits_for_the_registry_before_it_starts(t: Tale) -> None:
    t.fault("kill", "master-1", 5.0, 6.0)
    t.fault("kill", "store", 5.5, 19.0)
    t.call("mail", 18.5, 0, code="")


def nobody_leads_after_a_kill(t: Tale) -> None:
    t.fault("kill", "master-2", 5.0, 6.0)
    t.call("mail", 7.0, kind="ready", code="no master leads")


def moved_and_refused_meanwhile(t: Tale) -> None:
    t.fault("move namespace", "shop", 5.0, 7.0)
    t.h.places.append(Place("shop", "store-c", 6.5))
    t.h.copies["shop"] = {"shop-1": ["store-c"]}
    t.call("shop", 6.0, code="namespace_moving")
    t.epoch("shop", "store-b", 6.1, 1)
    t.epoch("shop", "store-c", 6.6, 2, holder="master-2")


def moved_while_a_master_cannot_read_the_registry(t: Tale) -> None:
    moved_and_refused_meanwhile(t)
    t.fault("silent cut", "master-1>store", 6.0, 8.0 + BACK_S)
    t.call("shop", 7.5 + BACK_S, code="namespace_moving")


def away_with_its_new_store(t: Tale) -> None:
    moved_and_refused_meanwhile(t)
    t.fault("kill", "store-c", 16.0, 17.0)
    t.call("shop", 16.5)


def no_answer_because_nobody_got_to_run(t: Tale) -> None:
    t.h.starved.append(Silence("harness", 5.0, 9.0))
    t.call("mail", 6.0, 0, took_s=3.0, code="")


def a_lock_that_nobody_saw_go_with_its_store(t: Tale) -> None:
    t.fault("stop", "store-b", 5.0, 9.0)
    t.epoch("shop", "store-c", 8.0, 2, holder="master-2")
    t.epoch("shop", "store-b", 9.2, 1)


GOOD = [
    all_is_well, refused_while_its_own_store_is_away, refused_by_a_master_that_is_cut_off_from_its_store,
    no_answer_of_a_master_that_was_killed, a_master_that_waits_for_the_registry_before_it_starts,
    nobody_leads_after_a_kill, moved_and_refused_meanwhile, moved_while_a_master_cannot_read_the_registry,
    away_with_its_new_store, no_answer_because_nobody_got_to_run, a_lock_that_nobody_saw_go_with_its_store,
]  # fmt: skip


@pytest.mark.parametrize("tell", GOOD, ids=lambda tell: tell.__name__)
def test_a_good_story_is_accepted(tell: Callable[[Tale], None]) -> None:
    tale = Tale()
    tell(tale)
    assert [str(found) for found in check_installation(tale.h).violations] == []


# --- bad ones


def _refused_while(target: str, kind: str = "kill", **how: Any) -> Callable[[Tale], None]:
    def tell(t: Tale) -> None:
        t.fault(kind, target, 5.0, 6.0)
        t.call("shop", 5.5, **how)

    return tell


def two_copies(t: Tale) -> None:
    t.h.copies["shop"]["shop-1"] = ["store-b", "store-c"]


def gone(t: Tale) -> None:
    del t.of["shop"].h.jobs["shop-1"]
    t.h.copies["shop"] = {}


def in_the_wrong_namespace(t: Tale) -> None:
    t.of["mail"].h.jobs["shop-1"] = t.of["shop"].h.jobs["shop-1"]


def runs_in_the_wrong_namespace(t: Tale) -> None:
    t.of["mail"].run("shop-1", 6.0, 6.1)


def an_epoch_of_two(t: Tale) -> None:
    t.epoch("shop", "store-c", 6.0, 1, nonce="other")


def led_twice(t: Tale) -> None:
    t.epoch("shop", "store-c", 6.0, 2, holder="master-2")
    t.epoch("shop", "store-b", 7.0, 1)


def claimed_by_two(t: Tale) -> None:
    """Both copies of a moved namespace are led, and each gives its own token."""
    t.of["shop"].run("shop-1", 1.5, 1.6, fence=900)


def settled_twice(t: Tale) -> None:
    t.of["shop"].usual("shop-3", at_s=4.0)
    claim = t.of["shop"].run("shop-3", 4.5, 4.6, attempt=1)
    t.of["shop"].end("shop-3", claim=claim)


def lost_beside_another_stores_fault(t: Tale) -> None:
    """A lease ends although only another store was away."""
    t.fault("stop", "store-c", 1.0, 9.0)
    story = t.of["shop"]
    story.push("shop-4", at_s=2.0)
    story.run("shop-4", 2.1, 5.0, ending="stopped")
    story.end(
        "shop-4", claim=story.run("shop-4", 6.0, 6.1, attempt=2), attempt=2, losses=1,
        attempts=(EndedAttempt(1, "lost"),),
    )  # fmt: skip


def stands_still_beside_another_stores_fault(t: Tale) -> None:
    t.fault("kill", "store-c", 4.0, 19.0)
    t.of["shop"].usual("shop-5", at_s=1.9)
    t.of["shop"].push("shop-6", at_s=2.2)
    t.of["shop"].end("shop-6", claim=t.of["shop"].run("shop-6", 19.0, 19.1))


def refused_at_once_by_a_busy_master(t: Tale) -> None:
    t.h.starved.append(Silence("master-1", 5.0, 9.0))
    t.call("shop", 6.0)


def no_answer_of_a_master_beside_a_busy_one(t: Tale) -> None:
    t.h.starved.append(Silence("master-2", 5.0, 9.0))
    t.call("shop", 6.0, 0, took_s=3.0)


def still_refused_long_after(t: Tale) -> None:
    t.fault("kill", "store-b", 5.0, 6.0)
    t.call("shop", 6.0 + BACK_S + 0.5)


def moving_refused_another(t: Tale) -> None:
    t.fault("move namespace", "mail", 5.0, 7.0)
    t.call("shop", 6.0, code="namespace_moving")


def moved_while_another_master_cannot_read_the_registry(t: Tale) -> None:
    moved_and_refused_meanwhile(t)
    t.fault("silent cut", "master-2>store", 6.0, 8.0 + BACK_S)
    t.call("shop", 7.5 + BACK_S, code="namespace_moving")


def away_with_its_former_store(t: Tale) -> None:
    moved_and_refused_meanwhile(t)
    t.fault("kill", "store-b", 16.0, 17.0)
    t.call("shop", 16.5)


def the_process_is_not_ready_for_another_store(t: Tale) -> None:
    t.fault("kill", "store-b", 5.0, 6.0)
    t.call("default", 5.5, kind="ready", code="store")


BAD: dict[str, list[Callable[[Tale], None]]] = {
    "refused for another's fault": [
        _refused_while("store-c"), _refused_while("store"), _refused_while("master-1>store-c", "cut off"),
        _refused_while("master-2>store-b", "cut off"), _refused_while("master-2", status=0),
        _refused_while("worker-1", status=429), _refused_while("store-c", kind="stop", status=0, took_s=3.0),
        refused_at_once_by_a_busy_master, no_answer_of_a_master_beside_a_busy_one, still_refused_long_after,
        moving_refused_another, moved_while_another_master_cannot_read_the_registry, away_with_its_former_store,
        the_process_is_not_ready_for_another_store,
    ],
    "in two stores": [two_copies],
    "lost": [gone],
    "in another namespace": [in_the_wrong_namespace, runs_in_the_wrong_namespace],
    "epoch of two": [an_epoch_of_two],
    "led in two stores": [led_twice],
    "attempt started twice": [claimed_by_two, settled_twice],
    "needless loss": [lost_beside_another_stores_fault],
    "stalled": [stands_still_beside_another_stores_fault],
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "tell"),
    [
        pytest.param(name, tell, id=f"{name}-{n}")
        for name, tells in BAD.items()
        for n, tell in enumerate(tells)
    ],
)
def test_a_bad_story_is_named(name: str, tell: Callable[[Tale], None]) -> None:
    tale = Tale()
    tell(tale)
    assert name in check_installation(tale.h).names()


def test_a_kept_history_is_judged_the_same(tmp_path: Path) -> None:
    tale = Tale()
    moved_and_refused_meanwhile(tale)
    two_copies(tale)
    tale.h.save(tmp_path)
    assert InstallationHistory.is_in(tmp_path)
    again = InstallationHistory.load(tmp_path)
    assert check_installation(again) == check_installation(tale.h)
    assert again.namespaces == tale.h.namespaces
