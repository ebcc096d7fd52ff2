"""Keep the challenges that jobs open in tests, without a master."""

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
    """The challenges that jobs opened. `opened`: the requests, in order."""

    def __init__(self) -> None:
        self.opened: list[Mapping[str, Any]] = []
        self._numbers = itertools.count(1)

    def open(
        self, job_id: str, token: str, fields: Mapping[str, Any], deadline_s: float
    ) -> "Future[Mapping[str, Any]]":
        """Keep a challenge, and return the answer that a master would give."""
        self.opened.append(fields)
        request_id = f"request-{next(self._numbers)}"
        answer: Future[Mapping[str, Any]] = Future()
        answer.set_result(
            {"request_id": request_id, "callback_url": f"http://127.0.0.1/callbacks/{request_id}"}
        )
        return answer


def callback_of(value: Any) -> "OutsideCallback":
    """Return a callback as a worker gets it. Bytes stay unchanged, a person's answer becomes the body that a master
    sends, and any other value becomes JSON."""
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
