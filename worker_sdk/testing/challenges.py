"""Challenges in tests: they are kept, and no master is asked."""

import itertools
import json
import time
from collections.abc import Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from worker_sdk.forms import FormAnswer

if TYPE_CHECKING:
    from worker_sdk.protocol import OutsideCallback


class KeptChallenges:
    """Challenges that jobs opened: `opened` has the request of each, in order."""

    def __init__(self) -> None:
        self.opened: list[Mapping[str, Any]] = []
        self._numbers = itertools.count(1)

    def open(
        self, job_id: str, token: str, fields: Mapping[str, Any], deadline_s: float
    ) -> "Future[Mapping[str, Any]]":
        """Keep a challenge and answer as a master does."""
        self.opened.append(fields)
        request_id = f"request-{next(self._numbers)}"
        answer: Future[Mapping[str, Any]] = Future()
        answer.set_result(
            {"request_id": request_id, "callback_url": f"http://127.0.0.1/callbacks/{request_id}"}
        )
        return answer


def callback_of(value: Any) -> "OutsideCallback":
    """Return a callback as a worker gets it: bytes as they are, the answer of a person as a master sends it, any other
    value as JSON."""
    if isinstance(value, FormAnswer):
        value = {
            "choice": value.choice,
            "comment": value.comment,
            "values": dict(value.values),
            "by": value.by,
            "address": value.address,
        }
    is_raw = isinstance(value, bytes)
    return {
        "content_type": "application/octet-stream" if is_raw else "application/json",
        "body": value if is_raw else json.dumps(value).encode(),
        "received_at_ms": round(time.time() * 1000),
    }
