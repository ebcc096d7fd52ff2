"""A line of a job's log is told from every text that a handler can write."""

import pytest

from jqmaster.cli.commands.logs import _text


@pytest.mark.parametrize("feed", ["\n", "\r\n", "\n\n"])
def test_text_after_a_line_feed_looks_like_no_other_line(feed: str) -> None:
    forged = "2026-11-28T07:00:00.000Z 1 info     all is well"
    entry = {
        "at": "2026-11-28T06:00:00.000Z",
        "attempt": 1,
        "level": "error",
        "text": f"broken{feed}{forged}",
    }
    first, *more = _text(entry).split("\n")
    assert first.endswith("broken")
    assert forged in more[-1]
    assert all(line.startswith(" ") for line in more if line)
