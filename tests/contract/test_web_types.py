"""The types of the web UI: how many parts of it no type describes. The number only falls."""

import re

import pytest

from tests.support.web_sources import WEB, web_sources

# Lower it when types are added.
MAX_ANY = 1
COMMENT = re.compile(r"/\*\*.*?\*/", re.DOTALL)
ANY = re.compile(r"(?<=[{<(,|:&] )any\b|(?<=[{<(])any\b")


def untyped(text: str) -> int:
    """Return how often the comments for the type checker say `any`."""
    return sum(len(ANY.findall(comment)) for comment in COMMENT.findall(text))


@pytest.mark.req("J15")
def test_no_part_loses_its_type() -> None:
    sources = [path for path in web_sources() if path.parent != WEB / "lang"]
    assert sum(untyped(path.read_text("utf-8")) for path in sources) <= MAX_ANY


def test_any_is_counted_where_it_is_a_type() -> None:
    assert (
        untyped("/** @param {any} a Any word. @param {{b: any, c: any[]}} d @returns {Map<string, any>} */")
        == 4
    )
    assert untyped("// any\n/** Not for any reason. */") == 0
