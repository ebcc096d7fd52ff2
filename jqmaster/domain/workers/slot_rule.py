"""Slot rules. An operator's setting for the slots of one worker also applies to workers that register later on the same
node with the same labels."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b


@dataclass(frozen=True, slots=True)
class SlotRule:
    """The rule for one node and one set of labels: each worker that registers there with exactly these labels gets
    `max_jobs` slots."""

    node_id: str
    labels: Mapping[str, str]
    max_jobs: int
    set_by: str
    set_at_ms: int

    @property
    def id(self) -> str:
        return rule_id(self.node_id, self.labels)


def rule_id(node_id: str, labels: Mapping[str, str]) -> str:
    """Return the ID of the rule for this node and these labels: 32 hexadecimal digits."""
    text = json.dumps([node_id, sorted(labels.items())], separators=(",", ":"))
    return blake2b(text.encode(), digest_size=16).hexdigest()
