"""The types of the web UI: how many parts of it no type describes, which number only falls; and where comments with
types have their description."""

import re

import pytest

from tests.support.web_sources import WEB, web_sources

# Lower it when types are added.
MAX_ANY = 1
COMMENT = re.compile(r"/\*\*.*?\*/", re.DOTALL)
ANY = re.compile(r"(?<=[{<(,|:&] )any\b|(?<=[{<(])any\b")


# In a comment of several lines, only the props themselves are described after their type.
HANGING = re.compile(r"\}\s+(?:\* +)?props\b[\s*]+[A-Z]")


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


def hanging(text: str) -> list[str]:
    """Return the comments of several lines that describe a component after the type of its props."""
    return [one for one in COMMENT.findall(text) if "\n" in one and HANGING.search(one)]


def test_the_description_of_a_component_comes_before_the_types_of_its_props() -> None:
    assert [one for path in web_sources() for one in hanging(path.read_text("utf-8"))] == []


def test_a_description_that_hangs_below_the_props_is_found() -> None:
    assert hanging("/**\n * @param {{one: Job}} props\n *   Shows a job.\n */")
    assert hanging("/**\n * @param {{one: Job,\n *   two: Job}} props Shows a job.\n */")
    assert not hanging("/** @param {{one: Job}} props Shows a job. */")
    assert not hanging("/**\n * Shows a job.\n * @param {{one: Job}} props\n *   `one`: the job.\n */")
