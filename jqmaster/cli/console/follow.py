"""`jqmaster job ID --follow` and `--stream`: show a job's progress or its partial results until it is over."""

import contextlib
import io
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final, NoReturn, Protocol

import typer

from jqmaster.cli.console import exits, output
from jqmaster.cli.console.http import MasterSession, job_path
from jqmaster.domain.jobs.job import FINISHED, JobState

# Pause between two reads of the job. Workers report progress about once a second.
EVERY_S: Final = 0.5
# Time for which to retry while the master does not answer. Replacing a master takes a few seconds.
PATIENCE_S: Final = 60.0
_RETRY_S: Final = 1.0
# Time for which the master waits for new partial results in one call. It must be shorter than the timeout of a
# call.
_PARTS_WAIT_S: Final = 5

_GOOD: Final = frozenset({JobState.SUCCEEDED, JobState.DISCARDED})


class Display(Protocol):
    """Shows the progress of a job in a terminal or in other output."""

    def show(self, view: Mapping[str, Any]) -> None: ...


def follow(http: MasterSession, job_id: str) -> NoReturn:
    """Show the job until it is over: as a bar in a terminal, and as lines elsewhere. Then exit with a code for
    its outcome."""
    with _display(http.as_json) as display:
        while True:
            view = asked(http, job_path(job_id))
            display.show(view)
            if view["state"] in FINISHED:
                break
            time.sleep(EVERY_S)
    _end(view)


def stream(http: MasterSession, job_id: str) -> NoReturn:
    """Print each partial result as a line of JSON until the job is over. Then exit with a code for its outcome."""
    after = "0-0"
    while True:
        page = asked(http, job_path(job_id, "parts"), {"after": after, "wait": _PARTS_WAIT_S})
        for part in page["parts"]:
            output.say_json(part)
        sys.stdout.flush()
        if page["is_last"]:
            _end(asked(http, job_path(job_id)))
        after = page["next"]


def _end(view: Mapping[str, Any]) -> NoReturn:
    state = view["state"]
    if state in _GOOD:
        raise typer.Exit(exits.OK)
    message = view["attempts"][-1]["message"] if view["attempts"] else None
    cause = f" ({view['cause']})" if view["cause"] not in (None, state) else ""
    exits.fail(exits.FAILED, f"job {view['id']} {state}{cause}" + (f": {message}" if message else ""))


def asked(http: MasterSession, path: str, query: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
    """Return the answer for a path. If the master does not answer, print the reason and retry for up to `PATIENCE_S`
    seconds."""
    end_s = time.monotonic() + PATIENCE_S
    told = ""
    while True:
        held = io.StringIO()
        try:
            with contextlib.redirect_stderr(held):
                answer = http.get(path, query)
        except typer.Exit as ended:
            # If only the archive of logs is unavailable, do not retry: the caller continues without the archive.
            is_final = ended.exit_code != exits.UNREACHABLE or "stored_after" in http.problem
            if is_final or time.monotonic() >= end_s:
                sys.stderr.write(held.getvalue())
                raise
            if not told:
                told = held.getvalue()
                sys.stderr.write(f"{told}  Asking again for up to {PATIENCE_S:.0f} s.\n")
                sys.stderr.flush()
            time.sleep(_RETRY_S)
        else:
            found: Mapping[str, Any] = answer
            return found


@contextlib.contextmanager
def _display(as_json: bool) -> Iterator[Display]:
    from rich.console import Console

    console = Console()
    if as_json or not console.is_terminal:
        yield _Lines(as_json)
        return
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.fields[state]}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.description}", markup=False),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as bar:
        yield _Bar(bar)


class _Lines:
    """Prints a line for each change."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._last: Any = None

    def show(self, view: Mapping[str, Any]) -> None:
        told = {field: view[field] for field in ("id", "state", "cause", "attempt", "progress")}
        if told == self._last:
            return
        self._last = told
        if self._as_json:
            output.say_json(told)
        else:
            output.say(_text(view))
        sys.stdout.flush()


class _Bar:
    """Updates a progress bar."""

    def __init__(self, bar: Any) -> None:
        self._bar = bar
        self._task: Any = None

    def show(self, view: Mapping[str, Any]) -> None:
        progress = view["progress"] or {}
        fraction = progress.get("fraction")
        if view["state"] == JobState.SUCCEEDED and fraction is None:
            fraction = 1.0
        fields = {
            "description": output.escape_controls(progress.get("message") or ""),
            "completed": fraction or 0.0,
            "total": 1.0 if fraction is not None or view["state"] != JobState.RUNNING else None,
            "state": _state(view),
        }
        if self._task is None:
            self._task = self._bar.add_task(**fields)
        else:
            self._bar.update(self._task, **fields)


def _text(view: Mapping[str, Any]) -> str:
    progress = view["progress"] or {}
    fraction, message = progress.get("fraction"), progress.get("message")
    share = "" if fraction is None else f"{fraction:.0%}"
    return "  ".join(part for part in (_state(view), share, message) if part)


def _state(view: Mapping[str, Any]) -> str:
    state = str(view["state"])
    return f"{state} (attempt {view['attempt']})" if view["attempt"] > 1 and state == "running" else state
