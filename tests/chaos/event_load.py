"""Events and definitions of a chaos run: what each event starts, and constantly due definitions."""

import random
from datetime import datetime
from typing import Any, Final

from tests.chaos.instants import OVERLAPS, ZONES, Definition, definitions
from worker_sdk.pusher.ids import new_job_id

GROUPS: Final = 3
COLLECTED_MAX: Final = 5
ARGUMENT: Final = {"n": {"from": "payload.n"}, "nap_s": 0.02}
RETRY: Final = {"base_s": 0.1, "factor": 2.0, "max_s": 1.0}
# The name of an event definition is also that of its jobs.
EACH, EVEN, COLLECTED, LAST = "event-each", "event-even", "event-collected", "event-last"
EVENT_DEFINITIONS: Final[dict[str, dict[str, Any]]] = {
    EACH: {"event_type": "chaos.*"},
    EVEN: {"event_type": "chaos.even", "matcher": {"field": "payload.is_even", "op": "eq", "value": True}},
    COLLECTED: {
        "event_type": "chaos.*",
        "collect": {"max": COLLECTED_MAX, "within_s": 1.0, "key": "payload.group"},
    },
    LAST: {"event_type": "chaos.*", "debounce": {"wait_s": 0.5, "max_s": 2.0, "key": "payload.group"}},
}
# Definitions due each minute, spread over it by their jitter.
MINUTELY: Final = 16
JITTER_S: Final = 55


def event_documents() -> dict[str, dict[str, Any]]:
    """Return all event definition documents by name."""
    return {
        name: {"kind": "event", "job": {"name": name, "retry": RETRY}, "argument": ARGUMENT, **fields}
        for name, fields in EVENT_DEFINITIONS.items()
    }


def time_definitions(now: datetime, seed: int) -> list[Definition]:
    """Return definitions of every schedule form, many of them due each minute."""
    return definitions(11, now, random.Random(seed)) + [
        Definition(
            f"minutely-{number}",
            OVERLAPS[number % 4],
            {"every_minutes": 1},
            ZONES[number % len(ZONES)],
            JITTER_S,
        )
        for number in range(MINUTELY)
    ]


def draw_event(rng: random.Random, number: int) -> dict[str, Any]:
    """Return an event identified by `number`."""
    is_even = number % 2 == 0
    payload = {"n": number, "is_even": is_even, "group": rng.randrange(GROUPS)}
    return {
        "event_type": "chaos.even" if rng.random() < 0.7 else "chaos.other",
        "payload": payload,
        "dedupe_key": new_job_id(),
        "source": "/chaos",
    }


def starts_even(event: dict[str, Any]) -> bool:
    """Return whether the definition with a matcher applies to this event."""
    return event["event_type"] == "chaos.even" and bool(event["payload"]["is_even"])
