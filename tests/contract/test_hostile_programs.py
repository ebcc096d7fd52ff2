"""Programs and texts of lesser-trusted callers cost a master a bounded time, even those that are slow by design.

Each row of the table in docs/security.md has a test here, or names another one.
"""

import gzip
import hashlib
import json
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import msgpack
import pytest

from jqmaster.api.encoding.json_bridge import json_to_msgpack
from jqmaster.domain.challenges.challenge_form import check_submission, form_of, values_of_texts
from jqmaster.domain.definitions.schedule import parse_schedule
from jqmaster.domain.jobs.error_type import error_type_of
from jqmaster.domain.jobs.failure_group import normalise
from jqmaster.domain.logs.lines import clean
from jqmaster.domain.logs.piece import Piece, PieceName
from jqmaster.domain.matching.glob import compile_glob
from jqmaster.domain.matching.key_value import key_value
from jqmaster.domain.matching.matcher import parse_matcher
from jqmaster.domain.matching.paths import parse_path
from jqmaster.errors import ArchiveDamagedError
from jqmaster.net.link_template import links_of
from tests.support.each import for_each

pytestmark = pytest.mark.req("M1")

# Processor time, so others on the machine do not count. Each of these takes a hundredth of it at most on an idle
# machine; a program that is exponential, or quadratic in its largest input, takes minutes.
MAX_S = 1.0
VALUE = "a" * 250_000
DOCUMENT = Path(__file__).parents[2] / "docs" / "security.md"


def glob(pattern: str, value: str = VALUE) -> Callable[[], object]:
    return lambda: compile_glob(pattern)(value)


def matched(document: Any) -> Callable[[], object]:
    def run() -> object:
        matcher = parse_matcher(document)
        return [matcher.for_name("mail." + "a" * 100) for _ in range(100)]

    return run


def cron(text: str) -> Callable[[], object]:
    def run() -> object:
        schedule = parse_schedule({"cron": text})
        after_ms = round(datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1000)
        return list(islice(schedule.occurrences(after_ms, ZoneInfo("Asia/Tokyo")), 5))

    return run


def form(schema: dict[str, Any], texts: dict[str, str]) -> Callable[[], object]:
    document = {
        "title": "t",
        "choices": [{"value": "ok"}],
        "schema": {"type": "object", "properties": schema},
    }

    def run() -> object:
        asked = form_of(document)
        return check_submission(asked, "ok", "", values_of_texts(asked, texts))

    return run


DEEP = "[" * 100_000
HOSTILE: dict[str, Callable[[], object]] = {
    "glob: many stars": glob("a*" * 500 + "b"),
    "glob: wildcard parts between stars": glob(("*" + "?" * 31 + "[!a]") * 25),
    "glob: classes": glob("*" + "[a-z]" * 6 + "b*" * 100),
    "glob: unclosed classes": glob("[" * 1_000),
    "matcher: as many conditions as it may have": matched(
        {"any": [{"field": "name", "op": "glob", "value": "*a" * 200 + "b"}] * 98}
    ),
    "matcher: nested without end": matched(json.loads('{"not":' * 400 + "1" + "}" * 400)),
    "matcher: path": lambda: parse_path("argument" + ".a" * 500),
    "matcher: quoted path": lambda: parse_path('argument["' + "\\" * 1_000),
    "cron: a day that comes every 28 years": cron("0 0 29 2 1#5"),
    "cron: never": cron("0 0 31 2 *"),
    "cron: long lists": cron(",".join(["0-59"] * 38) + " 0 29 2 *"),
    "cron: steps": cron("*/59 */23 */31 */12 */7"),
    "form: number": form({"n": {"type": "number"}}, {"n": "1" * 4_000 + "e"}),
    "form: mail": form({"n": {"type": "string", "format": "email"}}, {"n": "a@" * 2_000}),
    "form: uri": form({"n": {"type": "string", "format": "uri"}}, {"n": "http://" + "a" * 3_900 + " "}),
    "failure: message of openings": lambda: normalise("'\"`“«「" * 50_000),
    "failure: message of addresses": lambda: normalise("a.a-a@a" * 50_000),
    "failure: message of digits": lambda: normalise("1.1,1e1:" * 50_000),
    "failure: message of paths": lambda: normalise("/a/a/a.a" * 50_000),
    "failure: type": lambda: error_type_of(
        msgpack.packb({"type": "a" * 190 + "." * 9, "message": "", "traceback": ""}), "a"
    ),
    "log: escapes": lambda: clean("\x1b[" * 100_000, 2**20),
    "log: unended title": lambda: clean("\x1b]" + "a" * 2**20, 2**20),
    "log: many unended titles": lambda: clean("\x1b]a" * 300_000, 2**20),
    "log: long parameters": lambda: clean(("\x1b[" + "0" * 5_000) * 200, 2**20),
    "log: returns": lambda: clean("\r" * 2**20, 2**20),
    "link: braces in a name": lambda: links_of(
        ["L=https://x.example/{name}"],
        dict.fromkeys(("job_id", "name", "attempt", "created_ms", "finished_ms"), "{" * 200),
    ),
    "key: text like JSON": lambda: key_value("[" * 250_000),
    "json: nested without end": lambda: json_to_msgpack(DEEP.encode()),
    "json: a string of backslashes": lambda: json_to_msgpack(b'"' + b"\\" * 1_000_001 + b'"'),
    "json: long numbers": lambda: json_to_msgpack(b"[" + b"9" * 100_000 + b"]"),
}


@for_each("kind", HOSTILE)
def test_a_text_that_is_slow_by_design_costs_little(kind: str) -> None:
    began_s = time.process_time()
    refused = ""
    try:
        HOSTILE[kind]()
    except Exception as exc:
        # A refusal is as good as an answer, unless it is a fault of the program.
        refused = type(exc).__name__
    assert refused not in ("RecursionError", "MemoryError", "KeyError", "AttributeError", "AssertionError")
    assert time.process_time() - began_s < MAX_S


def test_the_table_of_programs_names_tests_that_exist() -> None:
    table = DOCUMENT.read_text().partition("## Programs of callers")[2].partition("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ") and "::" in line]
    assert len(rows) >= 12
    tests = Path(__file__).parents[1]
    for row in rows:
        for file, test in re.findall(r"`([\w/]+\.py)::(\w+)`", row):
            assert f"def {test}(" in (tests / file).read_text(), row


def test_an_archived_log_that_is_nested_without_end_is_damaged() -> None:
    data = gzip.compress(b'{"job_id":"a","name":"n","dropped":0,"x":' + DEEP.encode() + b"\n")
    name = PieceName(0, 1, 1, hashlib.sha256(data).hexdigest())
    with pytest.raises(ArchiveDamagedError):
        Piece.decode(name, data)
