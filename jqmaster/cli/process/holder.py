"""Renews the lease of one job that `jqmaster take` took. Only that command starts it.

Standard input has one line of JSON: {"master": …, "taken": …, "interval_s": …, "pid": …, "terminates": …}. The process
with `pid` runs the job. If it ends before `jqmaster done`, the attempt fails.
"""

import contextlib
import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

import typer

from jqmaster.cli.console.http import MasterSession, path_of
from jqmaster.cli.console.taken import TakenJob

_LOOK_S: Final = 0.5
# Time for which to keep trying while no master answers. It is much longer than any lease.
_UNANSWERED_S: Final = 600.0


class JobRunner:
    """The process that runs the job."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        # A descriptor of the process. It always refers to this process. The process ID, however, may be reused
        # later.
        self._descriptor: int | None = None
        self._is_over = False
        try:
            self._descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            self._is_over = True
        except (AttributeError, OSError):
            pass  # this system is not Linux

    def ends_within(self, seconds: float) -> bool:
        """Wait for up to `seconds`, and return whether the process has ended."""
        if self._descriptor is not None:
            readable, _, _ = select.select([self._descriptor], [], [], seconds)
            return bool(readable)
        deadline_s = time.monotonic() + seconds
        while not self._has_ended():
            if (left_s := deadline_s - time.monotonic()) <= 0:
                return False
            time.sleep(min(_LOOK_S, left_s))
        return True

    def terminate(self) -> None:
        """Send SIGTERM to the process."""
        with contextlib.suppress(OSError):
            if self._descriptor is not None:
                signal.pidfd_send_signal(self._descriptor, signal.SIGTERM)
            elif not self._has_ended():
                os.kill(self._pid, signal.SIGTERM)

    def _has_ended(self) -> bool:
        if not self._is_over:
            try:
                os.kill(self._pid, 0)
            except ProcessLookupError:
                self._is_over = True
            except PermissionError:
                pass
        return self._is_over


def hold(
    master: MasterSession,
    taken: TakenJob,
    runner: JobRunner,
    *,
    interval_s: float,
    terminates: bool,
    held: Callable[[], None],
) -> None:
    """Renew the lease until the attempt is settled, the lease has ended, or `runner` ends.

    * `interval_s`: seconds between heartbeats.
    * `terminates`: terminate `runner` when the job is canceled or its lease has ended.
    * `held`: called after the first answer to a heartbeat.
    """
    was_detached = False
    answered_s = time.monotonic()
    while time.monotonic() - answered_s < _UNANSWERED_S:
        answer = _called(master, taken, "heartbeat", _heartbeat(taken, asks_to_continue=was_detached))
        if answer is not None:
            answered_s = time.monotonic()
            status, state = answer
            if status == 404:
                return  # `jqmaster done` settled the job and unregistered the worker
            if status == 200:
                held()
                was_detached = state["detached"]
                if taken.claim in state["cancel"]:
                    if terminates:
                        runner.terminate()
                        _settle(master, taken, {"type": "canceled"})
                        return
                elif taken.claim in state["lost"]:
                    if terminates:
                        runner.terminate()
                    _leave(master, taken)
                    return
        if runner.ends_within(interval_s):
            message = "the process that took the job ended without `jqmaster done`"
            report = {"type": "failure", "reason": "other", "should_retry": True, "message": message}
            while not _settle(master, taken, report) and time.monotonic() - answered_s < _UNANSWERED_S:
                time.sleep(interval_s)
            return


def settle(master: MasterSession, taken: TakenJob, ending: dict[str, Any]) -> bool:
    """Report how the job ended, and return whether the master accepted the report. Raise typer.Exit if no master
    answers."""
    item = {**taken.claim, **ending, "finished_at": datetime.now(UTC).isoformat(timespec="milliseconds")}
    status, answer = master.call("POST", _path(taken, "results"), body={"results": [item]}, admit=(404,))
    # Do not count a 404 as settled. It means that the worker's lease expired some time ago, and that the master
    # has forgotten the worker.
    return status != 404 and taken.job_id in answer["accepted"]


def leave(master: MasterSession, taken: TakenJob) -> None:
    """Unregister the worker that took the job."""
    master.call("DELETE", _path(taken), admit=(404,))
    taken.forget()


def _heartbeat(taken: TakenJob, *, asks_to_continue: bool) -> dict[str, Any]:
    return {"running": [taken.claim], "free": 0, "asks_to_continue": asks_to_continue}


def _settle(master: MasterSession, taken: TakenJob, ending: dict[str, Any]) -> bool:
    """Report how the job ended, and return whether a master answered."""
    try:
        settle(master, taken, ending)
        leave(master, taken)
    except typer.Exit:
        return False
    return True


def _leave(master: MasterSession, taken: TakenJob) -> None:
    # best effort: masters remove a silent worker anyway. Keep the job's file, so that `jqmaster done` finds it.
    with contextlib.suppress(typer.Exit):
        master.call("DELETE", _path(taken), admit=(404,))


def _called(
    master: MasterSession, taken: TakenJob, action: str, body: dict[str, Any]
) -> tuple[int, Any] | None:
    try:
        return master.call("POST", _path(taken, action), body=body, admit=range(400, 500), timeout_s=5)
    except typer.Exit:  # no master answers; the lease is long enough to try again
        return None


def _path(taken: TakenJob, *rest: str) -> str:
    return path_of("/api/workers", taken.worker_id, *rest)


def main() -> None:
    """Renew the lease of the job that standard input names. Print `held` on standard output when a master has confirmed
    the lease."""
    order = json.loads(sys.stdin.readline())
    is_held = False

    def held() -> None:
        nonlocal is_held
        if not is_held:
            is_held = True
            print("held", flush=True)
            # Close standard output. A reader of the output of `take` waits until no process has it open.
            os.dup2(os.open(os.devnull, os.O_RDWR), 1)

    taken = TakenJob(**order["taken"])
    with MasterSession(order["master"], None) as master:
        hold(
            master,
            taken,
            JobRunner(order["pid"]),
            interval_s=order["interval_s"],
            terminates=order["terminates"],
            held=held,
        )


if __name__ == "__main__":
    main()
