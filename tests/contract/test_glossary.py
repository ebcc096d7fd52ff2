"""The glossary stays short enough to read, explains words from the documents, and agrees with the lexicon."""

import re
from pathlib import Path

from tests.contract.lexicon import HOMONYMS, Homonym, homonym_table
from tests.support.each import for_each

DOCS = Path(__file__).parents[2] / "docs"
MAX_WORDS = 30
EXPLAINED, _, NAMING_ONE_THING = (
    (DOCS / "glossary.md").read_text().partition("## Words that name one thing\n")
)
MEANINGS = dict(re.findall(r"^\| \*\*([^*]+)\*\* \| (.+) \|$", EXPLAINED, re.MULTILINE))
WORDS = list(MEANINGS)


def test_the_glossary_has_few_words_and_each_once() -> None:
    assert 15 < len(WORDS) <= MAX_WORDS


def test_each_row_of_the_glossary_is_read_as_a_word_of_its_own() -> None:
    rows = [line for line in EXPLAINED.splitlines() if line.startswith("| ")]
    assert len(rows) == 1 + len(WORDS)


def test_the_table_of_words_that_name_one_thing_is_that_of_the_lexicon() -> None:
    rows = [line for line in NAMING_ONE_THING.splitlines() if line.startswith("|")]
    assert rows == homonym_table(), "python -m tests.contract.lexicon prints the table"


@for_each("homonym", HOMONYMS, ids=lambda homonym: homonym.forms[0])
def test_the_glossary_explains_a_homonym_as_the_lexicon_does(homonym: Homonym) -> None:
    if meaning := MEANINGS.get(homonym.forms[0]):
        assert meaning.casefold().startswith(homonym.names.casefold()), meaning
    for name in re.findall(r"\*\*([^*]+)\*\*", EXPLAINED):
        if not set(name.split()).isdisjoint(homonym.forms):
            # A word that other names contain has to have its full name, or the reader takes one thing for another.
            assert name in homonym.also or (name in homonym.forms and not homonym.also), name


@for_each("word", WORDS)
def test_each_word_of_the_glossary_is_used_by_the_documents(word: str) -> None:
    documents = [path for path in DOCS.glob("*.md") if path.name != "glossary.md"]
    users = [path.name for path in documents if re.search(rf"\b{word}s?\b", path.read_text(), re.IGNORECASE)]
    assert len(users) >= 2, users
