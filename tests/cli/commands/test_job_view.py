"""How `jqmaster job ID` shows the result of a job to people."""

from typing import Any

import pytest

from jqmaster.cli.commands.jobs import _show_result

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


@pytest.mark.parametrize("error", [None, "text", {"traceback": ""}, {"traceback": 5}, ["traceback"]])
def test_an_error_without_a_traceback_is_shown_as_it_is(
    error: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    _show_result(failure(error))
    assert capsys.readouterr().out.splitlines()[0] == "error"


def test_a_result_is_shown_like_the_argument(capsys: pytest.CaptureFixture[str]) -> None:
    _show_result({"type": "success", "finished_at": "2026-11-28T06:00:00.000Z", "result": {"width": 320}})
    assert capsys.readouterr().out == 'result\n{\n  "width": 320\n}\n'
