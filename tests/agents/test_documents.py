"""The search over the documents finds the section that answers."""

from pathlib import Path

import pytest

from jqmaster.agents import documents

pytestmark = pytest.mark.req("D32")


@pytest.mark.parametrize(
    ("query", "document"),
    [
        ("limit jobs per tenant rate", "docs/constraints.md"),
        ("no master leads", "docs/runbooks.md"),
        ("restore a backup", "docs/backup.md"),
        ("exit codes", "docs/config.md"),
        ("webhook signature secret", "docs/notices.md"),
        ("django enqueue on commit", "docs/django.md"),
    ],
)
def test_a_question_finds_its_document(query: str, document: str) -> None:
    found = documents.search(query)
    assert found
    assert document in [one["document"] for one in found[:5]], [one["document"] for one in found]
    assert all(len(one["text"]) <= 710 for one in found)


def test_words_that_no_document_has_find_nothing() -> None:
    assert documents.search("zyxwvut qqqq") == []


def test_code_is_no_heading_and_a_section_has_the_headings_above_it() -> None:
    (first, second) = documents._split("a.md", "# A\nintro\n## B\n```\n# no heading\n```\ntext\n## C\n")
    assert (first.heading, second.heading) == ("A", "A › B")
    assert "# no heading" in second.text


def test_without_documents_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "PLACES", (tmp_path,))
    documents._sections.cache_clear()
    try:
        assert documents.search("limit") is None
    finally:
        documents._sections.cache_clear()
