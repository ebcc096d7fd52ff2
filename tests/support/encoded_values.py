"""MessagePack values built byte by byte, so that every tag and code occurs, even those that libraries never write."""

import struct
from collections.abc import Callable

from hypothesis import strategies as st

Bytes = st.SearchStrategy[bytes]

# Keys that have a meaning in the system, beside arbitrary ones.
_KEYS = st.sampled_from([b"a", b"card", b"$bin", b"$ext", b"*", b"", b"0", b"a.b", b"__proto__"])
_SECONDS = st.sampled_from(
    [
        -62_135_596_801,
        -62_135_596_800,
        -1,
        0,
        2**34 - 1,
        253_402_300_799,
        253_402_300_800,
        -(2**63),
        2**63 - 1,
    ]
)
_NANOSECONDS = st.sampled_from([0, 1, 999_999_999, 1_000_000_000, 2**30 - 1])
_TEXTS = (
    st.text(max_size=6).map(str.encode)
    | st.sampled_from(["\u2028", "\x00", "\x9b", "\u202e", "\ud7ff", "\ue000", "😀"]).map(str.encode)
    | st.binary(max_size=4)  # mostly invalid UTF-8: half a surrogate pair, a cut sequence, an overlong one
    | st.sampled_from([b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82"])
)


def _counted(tags: tuple[int, int, int], body: Bytes) -> Bytes:
    """Return `body` after a length of 1, 2 or 4 bytes."""
    forms = list(zip(tags, (">B", ">H", ">I"), strict=True))
    return st.builds(
        lambda form, data: bytes([form[0]]) + struct.pack(form[1], len(data)) + data,
        st.sampled_from(forms),
        body,
    )


def _text(body: Bytes) -> Bytes:
    short = body.filter(lambda data: len(data) < 32).map(lambda data: bytes([0xA0 | len(data)]) + data)
    return short | _counted((0xD9, 0xDA, 0xDB), body)


def _number(tag: int, size: int) -> Bytes:
    edges = [b"\x00" * size, b"\xff" * size, b"\x7f" + b"\xff" * (size - 1), b"\x80" + b"\x00" * (size - 1)]
    body = st.sampled_from(edges) | st.binary(min_size=size, max_size=size)
    return body.map(lambda data: bytes([tag]) + data)


def _timestamps() -> Bytes:
    long = st.builds(lambda ns, s: b"\xc7\x0c\xff" + struct.pack(">Iq", ns, s), _NANOSECONDS, _SECONDS)
    middle = st.builds(
        lambda ns, s: b"\xd7\xff" + struct.pack(">Q", (ns << 34) | (s & 0x3_FFFF_FFFF)),
        _NANOSECONDS,
        _SECONDS,
    )
    return long | middle | st.binary(min_size=4, max_size=4).map(lambda body: b"\xd6\xff" + body)


def _extensions() -> Bytes:
    code = st.integers(0, 255).map(lambda n: bytes([n]))
    fixed = st.sampled_from([(0xD4, 1), (0xD5, 2), (0xD6, 4), (0xD7, 8), (0xD8, 16)]).flatmap(
        lambda form: st.binary(min_size=form[1], max_size=form[1]).map(lambda body: (form[0], body))
    )
    counted = st.binary(max_size=13).flatmap(
        lambda body: st.sampled_from(
            [
                b"\xc7" + struct.pack(">B", len(body)), b"\xc8" + struct.pack(">H", len(body)),
                b"\xc9" + struct.pack(">I", len(body)),
            ]
        ).map(lambda head: (head, body))
    )  # fmt: skip
    return st.builds(lambda form, code: bytes([form[0]]) + code + form[1], fixed, code) | st.builds(
        lambda form, code: form[0] + code + form[1], counted, code
    )


def _leaves() -> Bytes:
    sizes = {0xCA: 4, 0xCB: 8, 0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8, 0xD0: 1, 0xD1: 2, 0xD2: 4, 0xD3: 8}
    one_byte = st.sampled_from([*range(0x80), *range(0xE0, 0x100), 0xC0, 0xC1, 0xC2, 0xC3]).map(
        lambda tag: bytes([tag])
    )
    return st.one_of(
        one_byte,
        st.one_of([_number(tag, size) for tag, size in sizes.items()]),
        _text(_TEXTS),
        _counted((0xC4, 0xC5, 0xC6), st.binary(max_size=6)),
        _timestamps(),
        _extensions(),
    )


def _with_head(short: int, tags: tuple[int, int]) -> Callable[[list[bytes], int], bytes]:
    def build(members: list[bytes], form: int) -> bytes:
        count = len(members)
        heads = (
            bytes([short | count]),
            struct.pack(">BH", tags[0], count),
            struct.pack(">BI", tags[1], count),
        )
        return heads[form] + b"".join(members)

    return build


def _containers(inner: Bytes) -> Bytes:
    form = st.integers(0, 2)
    keys = _text(_KEYS) | _text(_TEXTS) | _leaves()
    pairs = st.builds(lambda key, value: key + value, keys, inner)
    named = st.builds(lambda key, value: key + value, _text(_KEYS), inner)
    arrays = st.builds(_with_head(0x90, (0xDC, 0xDD)), st.lists(inner, max_size=4), form)
    maps = st.builds(
        _with_head(0x80, (0xDE, 0xDF)), st.lists(named, max_size=4) | st.lists(pairs, max_size=3), form
    )
    towers = st.builds(
        lambda level, depth, leaf: level * depth + leaf,
        st.sampled_from([b"\x91", b"\x81\xa1a", b"\xdc\x00\x01", b"\xdf\x00\x00\x00\x01\xa4card"]),
        st.sampled_from([1, 8, 30, 31, 32, 33, 300]),
        inner,
    )
    return arrays | maps | towers


def encoded_values() -> Bytes:
    """Return one encoded value. Many are invalid: a non-text key, text that is not UTF-8, or a reserved code."""
    leaves = _leaves()
    return st.recursive(leaves, _containers, max_leaves=8) | st.binary(min_size=1, max_size=12)
