"""The scripts, the masters and docs/redis_keys.md know the same wake-up messages."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

import jqmaster.store
from jqmaster.store.link.wake import (
    WORDS,
    BulkActionsChanged,
    JobsReady,
    LeftToOthers,
    MailArrived,
    MasterDemoted,
    PollOpened,
    QueueOpened,
    SlotsFreed,
    WakeMessage,
    decode,
    encode,
)

LUA = Path(jqmaster.store.__file__).parent / "lua"
DOCUMENT = Path(__file__).parents[2] / "docs" / "redis_keys.md"
# Sent only within the leader's process: elsewhere, the leader finds it at its next poll.
NEVER_PUBLISHED = {"gates"}
# Published by code, because only the domain knows for how long.
PUBLISHED_BY_CODE = {"left"}


def published() -> set[tuple[str, int]]:
    """Return each word that a script publishes on the wake channel, with the number of following fields."""
    found = set()
    for file in LUA.rglob("*.lua"):
        text = file.read_text()
        # A helper publishes the answer to a poll, and receives the message as an argument.
        sent = re.findall(r"\bmail_channel, ('.*?)\)", text)
        for channel, message in re.findall(r"redis\.call\('PUBLISH', (\w+), (.+)\)", text):
            if channel != "finished_channel" and message != "message":
                sent.append(message)
        for message in sent:
            literals = re.findall(r"'([^']*)'", message)
            assert message.startswith("'"), f"{file.name} publishes {message}: no word to be found"
            found.add((literals[0].partition(":")[0], "".join(literals).count(":")))
    return found


def test_scripts_publish_the_words_of_the_table_with_its_fields() -> None:
    known = {(word, len(fields(kind))) for word, kind in WORDS.items()}
    assert published() <= known
    assert {word for word, _ in known - published()} == NEVER_PUBLISHED | PUBLISHED_BY_CODE


def test_every_publish_of_the_scripts_is_looked_at() -> None:
    everything = "".join(file.read_text() for file in LUA.rglob("*.lua"))
    assert everything.count("PUBLISH") == len(re.findall(r"redis\.call\('PUBLISH', \w+, .+\)", everything))


def test_the_document_lists_every_message() -> None:
    rows = re.findall(r"^\| `([a-z]+)((?::\{\w+\})*)` \|", DOCUMENT.read_text("utf-8"), re.MULTILINE)
    listed = {word: re.findall(r"\{(\w+)\}", shape) for word, shape in rows if word in WORDS}
    assert listed == {word: [field.name for field in fields(kind)] for word, kind in WORDS.items()}


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (JobsReady(), "ready"),
        (BulkActionsChanged(), "actions"),
        (SlotsFreed("w", 3), "freed:w:3"),
        (LeftToOthers("w", 15_000, "a:b"), "left:w:15000:a:b"),
        (QueueOpened("a:zone:eu"), "queue:a:zone:eu"),
        (PollOpened("w", 250), "polls:w:250"),
        (MailArrived("w"), "mail:w"),
        (MasterDemoted("m"), "demoted:m"),
    ],
)
def test_a_message_is_read_as_it_was_written(message: WakeMessage, text: str) -> None:
    assert encode(message) == text
    assert decode(text) == message


@pytest.mark.parametrize("text", ["", "later", "ready:now", "freed:w", "freed:w:many", "polls:w:1:2", "mail"])
def test_a_text_that_this_version_does_not_know_is_no_message(text: str) -> None:
    assert decode(text) is None
