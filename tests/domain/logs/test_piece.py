"""Pieces of logs, as the archive keeps them."""

import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jqmaster.domain.ids import new_id
from jqmaster.domain.logs.page import NumberedLine
from jqmaster.domain.logs.piece import Piece, PieceName, newest
from jqmaster.errors import ArchiveDamagedError

pytestmark = pytest.mark.req("D17")

ENTRIES = [NumberedLine(3, 1, 5, 1, "a\nb"), NumberedLine(9, 2, 6, 4, "\x1b[31mré\N{SNOWMAN}")]


def piece(entries: list[NumberedLine]) -> Piece:
    return Piece(new_id(), "work", 7, entries)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, max_size=20))
def test_a_piece_comes_back_as_it_went(texts: list[str]) -> None:
    one = piece([NumberedLine(n, 1, 5, n % 5, text) for n, text in enumerate(texts, 1)])
    data = one.encode()
    assert one.encode() == data
    assert Piece.decode(PieceName.of(1, one.entries, data), data) == one


def test_an_object_is_lines_of_json_that_any_tool_can_read() -> None:
    head, *lines = map(json.loads, gzip.decompress(piece(ENTRIES).encode()).splitlines())
    assert (head["name"], head["dropped"]) == ("work", 7)
    assert lines[1] == {"seq": 9, "attempt": 2, "at_ms": 6, "level": "critical", "text": ENTRIES[1].text}


def test_a_name_says_which_lines_it_holds_and_what_its_bytes_are() -> None:
    name = PieceName.of(1_800, ENTRIES, b"bytes")
    assert (name.created_ms, name.first, name.last) == (1_800, 3, 9)
    assert PieceName.parse(str(name)) == name
    assert PieceName.parse("notes.txt") is None


@pytest.mark.parametrize("harm", ["cut short", "other bytes", "no gzip", "no lines", "no such level"])
def test_damage_is_found(harm: str) -> None:
    data = piece(ENTRIES).encode()
    name = PieceName.of(1, ENTRIES, data)
    if harm == "cut short":
        data = data[:-3]
    elif harm == "other bytes":
        data = data[:-3] + b"xyz"
    else:
        # Something else wrote this data.
        data = {
            "no gzip": b"plain",
            "no lines": gzip.compress(b"plain"),
            "no such level": gzip.compress(
                b'{"job_id":"1","name":"w","dropped":0}\n'
                b'{"seq":1,"attempt":1,"at_ms":1,"level":"odd","text":"a"}\n'
            ),
        }[harm]
        name = PieceName.of(1, ENTRIES, data)
    with pytest.raises(ArchiveDamagedError, match="lines 3 to 9"):
        Piece.decode(name, data)


def test_remains_of_an_interrupted_move_and_former_jobs_are_passed_over() -> None:
    former, short, long, next_one, late = (
        PieceName(1, 1, 900, "a" * 64),
        PieceName(2, 1, 5, "b" * 64),
        PieceName(2, 1, 8, "c" * 64),
        PieceName(2, 9, 12, "d" * 64),
        PieceName(2, 11, 12, "e" * 64),
    )
    assert newest([next_one, short, late, former, long]) == [long, next_one]
    assert newest([]) == []
