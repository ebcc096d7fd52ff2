"""The table of bad inputs: each row has a test that says so with `@pytest.mark.row(number)`."""

import ast
import functools
from pathlib import Path
from typing import Final

from tests.support.each import for_each
from tests.support.syntax import declarations

TESTS: Final = Path(__file__).parents[1]

ROWS: Final = {
    1: "no bytes after connect",
    2: "header trickle",
    3: "body trickle",
    4: "the body ends before its Content-Length",
    5: "more bytes than the Content-Length",
    6: "two different Content-Length",
    7: "Content-Length that is no number",
    8: "Transfer-Encoding and Content-Length",
    9: "broken chunks",
    10: "an encoded body",
    11: "a header of 100 KB",
    12: "5,000 headers",
    13: "no Host, two, or another one",
    14: "HTTP/1.0, HTTP/2 preface, TLS hello",
    15: "NUL, CR, LF in path or header",
    16: "a path of 64 KB",
    17: "twisted paths",
    18: "other methods",
    19: "HEAD and OPTIONS",
    20: "Expect: 100-continue with a body over the limit",
    21: "Upgrade",
    22: "Range with many ranges",
    23: "X-Forwarded headers of anybody",
    24: "1,000 pipelined requests",
    25: "a client that never reads",
    26: "too many connections",
    27: "no Content-Type, or another",
    28: "another charset, two Content-Types",
    29: "Accept: image/png",
    30: "empty body",
    31: "truncated message",
    32: "bytes after the message",
    33: "byte 0xc1",
    34: "lengths of 4 G",
    35: "100,000 levels",
    36: "33 levels",
    37: "1 MiB of empty maps",
    38: "a key twice",
    39: "keys that are no strings in the envelope",
    40: "keys that are no strings in the argument",
    41: "invalid UTF-8",
    42: "NaN and infinities in the envelope",
    43: "NaN in the argument",
    44: "unknown extension types",
    45: "impossible timestamps",
    46: "wrong types",
    47: "unknown fields",
    48: "JSON as MessagePack",
    49: "pickle, YAML, zip",
    50: "top level not a map",
    51: "impossible names",
    52: "impossible priorities",
    53: "impossible max_retry",
    54: "impossible timeouts",
    55: "run_at in the past",
    56: "impossible run_at",
    57: "delay and run_at",
    58: "argument over the limit",
    59: "body over the limit",
    60: "bulk of none, too many, with a bad one",
    61: "a known ID with the same and other content",
    62: "Idempotency-Key repeated, changed, too long",
    63: "references that do not exist",
    66: "store full, down, loading, read-only, slow",
    67: "wrong, missing, revoked token",
    68: "malformed, unknown, deleted ID",
    69: "impossible wait",
    70: "impossible limit and cursor",
    71: "patterns as filters",
    72: "steering that does not apply",
    76: "impossible registrations",
    77: "registering again",
    78: "heartbeat of an unknown worker",
    79: "foreign, too many, repeated tokens",
    80: "impossible heartbeats",
    81: "start with a wrong token, twice, after cancel",
    82: "result with a wrong token, unknown job, repeated",
    83: "impossible results",
    84: "result over the limit",
    85: "result of another worker's job",
    86: "impossible and too many calls for jobs",
    115: "charts over impossible spans",
    116: "writes of other sites, or without the token of the session",
    117: "guessing passwords",
    118: "session cookies changed or replayed",
    119: "worker: unsigned, wrong key, expired, replayed, changed body or path",
    120: "worker: signature for another worker",
    121: "worker: old epoch",
    122: "worker: unknown name",
    123: "worker: busy or draining",
    124: "worker: other methods and paths",
    125: "worker: oversized bodies and bombs",
    126: "worker: ping unsigned",
}


@functools.cache
def marked_rows() -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for path in TESTS.rglob("test_*.py"):
        text = path.read_text()
        if "mark.row" not in text:
            continue
        for node in declarations(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                for decorator in node.decorator_list:
                    if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.row":
                        for argument in decorator.args:
                            assert isinstance(argument, ast.Constant)
                            assert isinstance(argument.value, int)
                            found.setdefault(argument.value, []).append(f"{path.name}::{node.name}")
    return found


@for_each("row", ROWS, ids=lambda row: f"{row} {ROWS[row]}")
def test_every_row_has_a_test(row: int) -> None:
    assert marked_rows().get(row), f"no test is marked with row {row}: {ROWS[row]}"


def test_no_test_names_a_row_that_is_not_there() -> None:
    assert marked_rows().keys() <= ROWS.keys()
