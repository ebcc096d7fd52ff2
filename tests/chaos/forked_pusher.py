"""An SDK pusher that forks repeatedly while it pushes: `python -m tests.chaos.forked_pusher`.

To a master, it behaves like a preloading web server. Parent and children push and ask for results side by side. Each
call is a line in the file CHAOS_CALLS, so that the checker sees who got whose answer. Ends at CHAOS_UNTIL
(CLOCK_MONOTONIC).
"""

import json
import os
import random
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.chaos.history import Call, Outcome
from worker_sdk import AnswerMismatchError, NotFinished, RefusedError, SyncPusher, UnavailableError
from worker_sdk.pusher.ids import new_job_id
from worker_sdk.pusher.results import JobResult

CHILDREN = 3
# A web server's child lives longer. Frequent forks more often fall into the middle of another action.
LIFE_S = (0.5, 3.0)


class Forking:
    """`pusher` has open connections when each child is made."""

    def __init__(self, pusher: SyncPusher, calls_fd: int, rng: random.Random) -> None:
        self._pusher = pusher
        self._calls_fd = calls_fd
        self._rng = rng

    def run(self, until_s: float) -> None:
        children: set[int] = set()
        while time.monotonic() < until_s:
            self._push()
            children = {pid for pid in children if os.waitpid(pid, os.WNOHANG) == (0, 0)}
            if len(children) < CHILDREN:
                children.add(self._fork(min(until_s, time.monotonic() + self._rng.uniform(*LIFE_S))))
        for pid in children:
            os.waitpid(pid, 0)

    def _fork(self, until_s: float) -> int:
        seed = self._rng.random()
        if pid := os.fork():
            return pid
        try:
            self._rng.seed(seed)
            while time.monotonic() < until_s:
                self._push()
        finally:
            os._exit(0)

    def _push(self) -> None:
        rng = self._rng
        argument = {"n": rng.randrange(10**6, 10**12), "nap_s": rng.choice((0, 0.01, 0.1))}
        # The retries of SDK and master keep a call within the run's time.
        job: dict[str, Any] = {"id": new_job_id(), "name": "work", "argument": argument, "keep_result": True}
        job["retry"] = {"base_s": 0.1, "factor": 2.0, "max_s": 1.0}
        invoked_s = time.monotonic()
        outcome: Outcome = "done"
        answered = job["id"]
        try:
            answered = self._pusher.enqueue(**job)
        except AnswerMismatchError as exc:
            answered = str(exc.answered)
        except (RefusedError, UnavailableError) as exc:
            outcome = "unknown" if exc.unknown_ids else "refused"
        self._note(
            Call("push", job["id"], invoked_s, time.monotonic(), outcome, 200, job, answered_id=answered)
        )
        if outcome == "done" and rng.random() < 0.5:
            self._ask(job["id"])
        time.sleep(rng.uniform(0.05, 0.3))

    def _ask(self, job_id: str) -> None:
        invoked_s = time.monotonic()
        outcome, state, value = self._result(job_id)
        self._note(
            Call("result", job_id, invoked_s, time.monotonic(), outcome, 200, state=state, value=value)
        )

    def _result(self, job_id: str) -> tuple[Outcome, str, Any]:
        try:
            found = self._pusher.result(job_id, wait=2)
        except NotFinished as exc:
            return "done", exc.state, None
        except AnswerMismatchError as exc:
            return "done", "", {"type": "success", "result": {"of": exc.answered}}
        except (RefusedError, UnavailableError):
            return "unknown", "", None
        return "done", "", None if found is None else _as_answered(found)

    def _note(self, call: Call) -> None:
        # One write(2) to an O_APPEND file keeps the lines of all processes whole.
        os.write(self._calls_fd, json.dumps(asdict(call)).encode() + b"\n")


def _as_answered(result: JobResult) -> dict[str, Any]:
    fields = asdict(result)
    if result.is_success:
        return {name: fields[name] for name in ("type", "finished_at", "result")}
    return {name: value for name, value in fields.items() if name != "result"}


def read_calls(path: Path) -> list[Call]:
    """Return the notes of all processes."""
    return [Call(**json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []


def main() -> None:
    calls_fd = os.open(os.environ["CHAOS_CALLS"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    with SyncPusher(os.environ["CHAOS_MASTERS"].split(), timeout_s=3.0) as pusher:
        Forking(pusher, calls_fd, random.Random(os.environ["CHAOS_SEED"])).run(
            float(os.environ["CHAOS_UNTIL"])
        )


if __name__ == "__main__":
    main()
