"""The glossary stays short enough to read, and explains words from the documents."""

import re
from pathlib import Path

from tests.support.each import for_each

DOCS = Path(__file__).parents[2] / "docs"
MAX_WORDS = 30
WORDS = re.findall(r"^\| \*\*([^*]+)\*\* \| .+ \|$", (DOCS / "glossary.md").read_text(), re.MULTILINE)


def test_the_glossary_has_few_words_and_each_once() -> None:
    assert 15 < len(WORDS) <= MAX_WORDS
    assert len(set(WORDS)) == len(WORDS)


def test_each_row_of_the_glossary_is_read_as_a_word() -> None:
    rows = [line for line in (DOCS / "glossary.md").read_text().splitlines() if line.startswith("| ")]
    assert len(rows) == 1 + len(WORDS)


@for_each("word", WORDS)
def test_each_word_of_the_glossary_is_used_by_the_documents(word: str) -> None:
    documents = [path for path in DOCS.glob("*.md") if path.name != "glossary.md"]
    users = [path.name for path in documents if re.search(rf"\b{word}s?\b", path.read_text(), re.IGNORECASE)]
    assert len(users) >= 2, users
