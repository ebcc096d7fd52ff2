"""Unique and debounced pushes: few keys, so that pushes of one key meet.

All pushes of a key have the same scope and delay; otherwise, the checker would know less about who holds the key.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from worker_sdk.pusher.ids import new_job_id

CONFLICTS: Final = ("reject", "existing", "replace")


@dataclass(frozen=True, slots=True)
class Kind:
    """The pushes of some keys. With `wait_s`, they are debounced. With `is_named`, the key is a text instead of the
    argument."""

    name: str
    keys: int
    scope: str = "until_finished"
    ttl_s: float | None = None
    delay_s: float = 0.0
    wait_s: float = 0.0
    max_s: float = 0.0
    is_named: bool = True


KINDS: Final = (
    Kind("finished", 4),
    Kind("finished-later", 3, delay_s=0.6),
    Kind("equal", 2, is_named=False),
    Kind("start", 2, scope="until_start"),
    Kind("start-later", 3, scope="until_start", delay_s=0.8),
    Kind("window", 3, scope="window", ttl_s=1.5),
    Kind("debounced", 3, scope="until_start", wait_s=0.5, max_s=1.6),
)


def draw(rng: random.Random, number: int) -> dict[str, Any]:
    """Return a push of one of the keys. `number` distinguishes its content from others."""
    kind = rng.choices(KINDS, [kind.keys for kind in KINDS])[0]
    return _push(rng, kind, rng.randrange(kind.keys), number, rng.choice(CONFLICTS))


def rival(rng: random.Random, push: Mapping[str, Any], number: int) -> dict[str, Any]:
    """Return another push of the same key."""
    other = {**push, "id": new_job_id()}
    if is_named(push):
        other["argument"] = {**push["argument"], "n": number}
    if "unique" in push:
        other["unique"] = {**push["unique"], "on_conflict": rng.choice(CONFLICTS)}
    return other


def probes(number: int) -> list[dict[str, Any]]:
    """Return one push for each key, which is refused unless the key is free."""
    rng = random.Random(number)
    kinds = [kind for kind in KINDS if not kind.wait_s]
    return [
        _push(rng, kind, key, number + at, "reject")
        for at, (kind, key) in enumerate((kind, key) for kind in kinds for key in range(kind.keys))
    ]


def _push(rng: random.Random, kind: Kind, key: int, number: int, on_conflict: str) -> dict[str, Any]:
    argument = {"n": number, "nap_s": round(rng.choice((0.0, 0.2, 0.6)), 3)}
    push: dict[str, Any] = {"id": new_job_id(), "name": "work", "argument": argument}
    push["retry"] = {"base_s": 0.1, "factor": 2.0, "max_s": 1.0}
    if not kind.is_named:
        push["argument"] = {"n": -1 - key, "nap_s": 0.3}
    text = f"{kind.name}-{key}" if kind.is_named else None
    if kind.delay_s:
        push["delay"] = kind.delay_s
    if kind.wait_s:
        return push | {"debounce": {"key": text, "wait_s": kind.wait_s, "max_s": kind.max_s}}
    unique = {"key": text, "scope": kind.scope, "on_conflict": on_conflict}
    return push | {"unique": unique | ({"ttl_s": kind.ttl_s} if kind.ttl_s else {})}


# --- reading a push again


def rule_of(push: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return a push's terms for its key, or None without a key."""
    found: Mapping[str, Any] | None = push.get("unique") or push.get("debounce")
    return found


def is_named(push: Mapping[str, Any]) -> bool:
    rule = rule_of(push)
    return rule is not None and rule.get("key") is not None


def key_of(push: Mapping[str, Any]) -> str:
    """Return the part shared by all pushes of one key and by no others."""
    rule = rule_of(push)
    assert rule is not None
    return str(rule["key"]) if rule.get("key") is not None else f"argument {sorted(push['argument'].items())}"
