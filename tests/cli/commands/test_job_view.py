"""How `jqmaster job ID` shows the result of a job to people."""

from typing import TYPE_CHECKING, Any, cast

import pytest

from jqmaster.cli.commands.jobs import _show_result
from jqmaster.cli.commands.store import _clock_text
from jqmaster.cli.console.job_results import no_result_text

if TYPE_CHECKING:
    from jqmaster.cli.console.http import MasterSession

TRACE = (
    'Traceback (most recent call last):\n  File "app.py", line 3, in send\nValueError: no \x1b[2J address\n'
)


def failure(error: Any) -> dict[str, Any]:
    return {
        "type": "failure",
        "reason": "other",
        "should_retry": False,
        "message": "no address",
        "error": error,
    }


@pytest.mark.req("J9")
def test_a_traceback_keeps_its_lines_and_none_looks_like_other_output(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _show_result(failure({"type": "ValueError", "traceback": TRACE, "message": "no address"}))
    head, *lines, name, first, kind, message, last = capsys.readouterr().out.splitlines()
    assert (head, name, first, last) == ("traceback", "error", "{", "}")
    assert [line.strip() for line in (kind, message)] == ['"type": "ValueError",', '"message": "no address"']
    assert lines[1] == '    File "app.py", line 3, in send'
    assert all(line.startswith("  ") for line in lines)
    assert "\x1b" not in "".join(lines)


def test_an_attempt_that_raised_nothing_is_shown_by_its_reason(capsys: pytest.CaptureFixture[str]) -> None:
    _show_result({**failure(None), "reason": "timeout", "message": "the job ran longer than 10 s"})
    assert capsys.readouterr().out == "error  timeout: the job ran longer than 10 s\n"


@pytest.mark.parametrize("error", ["text", {"traceback": ""}, {"traceback": 5}, ["traceback"]])
def test_an_error_without_a_traceback_is_shown_as_it_is(
    error: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    _show_result(failure(error))
    assert capsys.readouterr().out.splitlines()[0] == "error"


def test_a_result_is_shown_like_the_argument(capsys: pytest.CaptureFixture[str]) -> None:
    _show_result({"type": "success", "finished_at": "2026-11-28T06:00:00.000Z", "result": {"width": 320}})
    assert capsys.readouterr().out == 'result\n{\n  "width": 320\n}\n'


@pytest.mark.parametrize(
    ("status", "view", "told"),
    [
        (403, {}, "the scope read is needed to see its state"),
        (200, {"state": "canceled", "keep_result": True}, "was canceled, so it has no result"),
        (200, {"state": "discarded", "keep_result": False}, "was discarded, so it has no result"),
        (200, {"state": "succeeded", "keep_result": False}, "succeeded, but its result was not kept"),
        (
            200,
            {"state": "succeeded", "keep_result": True},
            "succeeded, but its result is gone: it was fetched earlier",
        ),
        (200, {"state": "failed", "keep_result": True}, "failed, but its result is gone"),
    ],
)
def test_a_missing_result_is_explained(status: int, view: dict[str, Any], told: str) -> None:
    class Http:
        def call(self, *call: object, **options: object) -> tuple[int, Any]:
            return status, view

    assert told in no_result_text(cast("MasterSession", Http()), "0190")


@pytest.mark.parametrize(
    ("ahead_ms", "told"),
    [(0, "the same as here"), (7, "7 ms ahead of this machine's"), (-7, "7 ms behind this machine's")],
)
def test_doctor_tells_how_far_the_stores_clock_is_off(ahead_ms: int, told: str) -> None:
    assert _clock_text(ahead_ms) == told
