"""The stored text of a log line, and the chunks that hold lines."""

import pytest

from jqmaster.domain.logs.lines import CHUNK_BYTES, CHUNK_LINES, LINE_BYTES, LogLine, chunks, clean

pytestmark = pytest.mark.req("D17")


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("plain", "plain"),
        ("tab\tand\nlines", "tab\tand\nlines"),
        ("windows\r\nlines\r\n", "windows\nlines\n"),
        ("\x1b[31mred\x1b[0m \x1b[38;5;9mbright\x1b[m", "\x1b[31mred\x1b[0m \x1b[38;5;9mbright\x1b[m"),
        ("a\x1b[2Jcleared", "acleared"),
        ("a\x1b[10;10Hmoved", "amoved"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]52;c;aGk=", ""),
        ("\x1bP device \x1b\\x", "x"),
        ("\x9b2Jc1", "c1"),
        ("\x1bcreset", "reset"),
        ("end\x1b", "end"),
        ("10 %\r20 %\r30 %", "30 %"),
        ("\r", ""),
        ("bell\x07 nul\x00", "bell\ufffd nul\ufffd"),
        ("user\u202egnp.exe", "user\ufffdgnp.exe"),
        ("\u2028", "\ufffd"),
        ("日本語 ünï 🎉", "日本語 ünï 🎉"),
        # Two nested sequences leave no sequence behind.
        ("\x1b\x1b]x\x07[2Jx", "[2Jx"),
        ("\x1b[3\x1b]x\x071mx", "1mx"),
        (b"binary \xff\xfe", "binary \ufffd\ufffd"),
    ],
)
def test_sequences_that_act_on_a_terminal_are_removed_except_colours(text: str | bytes, kept: str) -> None:
    assert clean(text, 300) == kept


def test_a_long_line_is_cut_and_says_so() -> None:
    assert clean("x" * 1_000_000, 5) == "xxxxx … (cut: 1,000,000 characters)"
    assert clean("x" * 5, 5) == "xxxxx"


def test_a_hostile_line_takes_no_long_time() -> None:
    for text in ("\x1b]" * 200_000, "\x1b[" + "0;" * 200_000, "\r" * 400_000, "\x1b[" * 200_000):
        assert len(clean(text, 1_000_000)) <= len(text)


def test_chunks_are_bounded_in_lines_and_bytes() -> None:
    assert list(chunks([])) == []
    short = [LogLine(n, 0, 1, "x") for n in range(1, CHUNK_LINES + 2)]
    first, second = chunks(short)
    assert (first.first, first.last, len(first.lines)) == (1, CHUNK_LINES, CHUNK_LINES)
    assert (second.first, second.size) == (CHUNK_LINES + 1, 1 + LINE_BYTES)
    long = [LogLine(n, 0, 1, "x" * (CHUNK_BYTES // 2)) for n in range(1, 4)]
    assert [len(chunk.lines) for chunk in chunks(long)] == [1, 1, 1]
