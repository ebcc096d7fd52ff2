"""The lines of the web UI: how many are longer than a reader sees at once. The number only falls."""

from typing import Final

import pytest

from tests.support.web_sources import WEB, web_sources

LONGEST: Final = 160
# An icon and the characters that are shown as escapes: nothing can break these lines.
MAX_LONG: Final = 2


@pytest.mark.req("J15")
def test_no_line_is_longer_than_a_reader_sees() -> None:
    # Each text of a language is one line.
    sources = [path for path in web_sources() if path.parent != WEB / "lang"]
    long = [
        f"{path.relative_to(WEB)}:{number}"
        for path in sources
        for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1)
        if len(line) > LONGEST
    ]
    assert len(long) <= MAX_LONG, f"break these lines, or run: make format\n{long}"
