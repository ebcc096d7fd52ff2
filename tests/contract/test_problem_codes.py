"""Every problem code is in the table from which the OpenAPI enum and docs/errors.md are made."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path

from jqmaster import errors
from jqmaster.api.encoding.negotiation import NotAcceptableError
from jqmaster.api.http.problem_codes import CODES, ProblemCode
from jqmaster.api.http.problems import STATUS
from jqmaster.cli.docs import ERRORS, errors_document
from jqmaster.domain.jobs.job import JobState
from jqmaster.errors import JqmasterError
from tests.support.contract import document
from tests.support.each import for_each
from worker_sdk import protocol
from worker_sdk.transport.certain_refusals import had_no_effect

ROOT = Path(__file__).parents[2]
CLASSES = {
    cls.__name__: cls
    for cls in [*vars(errors).values(), NotAcceptableError]
    if isinstance(cls, type) and issubclass(cls, JqmasterError)
}
# Errors that stop a startup and never answer a request.
NOT_OVER_HTTP = {errors.DataDirInUseError}
# Codes composed where they are raised.
COMPOSED = {
    "job_{conflict.state}": [f"job_{state}" for state in JobState],
    "{kind}_exists": [
        f"{kind}_exists" for kind in ("calendar", "constraint", "definition", "namespace", "notice", "target")
    ],
    "{name}_too_large": ["result_too_large", "error_too_large"],
    "namespace_{namespace.state}": ["namespace_closed", "namespace_moving", "namespace_faulted"],
}
# The protocol of a master's and a worker's server.
GUARDED = ROOT / "worker_sdk/transport/guarded.py"
TYPESCRIPT = ROOT / "clients/typescript/src/wire/protocol.ts"
# Places where a variable holds the code.
NAMED_ELSEWHERE = {
    "store_unfit": 503, "store_full": 503, "invalid_argument": 422, "unserved_name": 422, "unchecked_argument": 422,
}  # fmt: skip


def status_of(cls: type[JqmasterError]) -> int:
    return next(STATUS[base][0] for base in cls.__mro__ if base in STATUS)


def raised() -> Iterator[tuple[str, int]]:
    """Yield (code, status) of every error built anywhere."""
    for cls in set(CLASSES.values()) - NOT_OVER_HTTP:
        yield cls.code, status_of(cls)
    for file in [*sorted((ROOT / "jqmaster").rglob("*.py")), GUARDED]:
        if "cli" in file.relative_to(ROOT).parts:  # the command's own errors never answer a request
            continue
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            if name in CLASSES:
                for keyword in node.keywords:
                    if keyword.arg == "code":
                        yield from ((code, status_of(CLASSES[name])) for code in codes_in(keyword.value))
            # Refusals by the HTTP server before a request exists.
            for first, second in zip(node.args, node.args[1:], strict=False):
                yield from edge(first, second)
            for argument in node.args:
                for pair in ast.walk(argument):
                    if isinstance(pair, ast.Tuple) and len(pair.elts) == 2:
                        yield from edge(*pair.elts)
    yield from NAMED_ELSEWHERE.items()
    yield from (("not_found", 404), ("method_not_allowed", 405))


def edge(status: ast.expr, code: ast.expr) -> Iterator[tuple[str, int]]:
    if (
        isinstance(status, ast.Attribute)
        and getattr(status.value, "id", "") == "HTTPStatus"
        and isinstance(code, ast.Constant)
        and isinstance(code.value, str)
    ):
        yield code.value, HTTPStatus[status.attr].value


def codes_in(value: ast.expr) -> list[str]:
    match value:
        case ast.Constant(str(code)):
            return [code]
        case ast.JoinedStr():
            return COMPOSED[ast.unparse(value).removeprefix("f").strip("'\"")]
    return []


def test_the_table_holds_every_code_with_its_statuses() -> None:
    found: defaultdict[str, set[int]] = defaultdict(set)
    for code, status in raised():
        found[code].add(status)
    listed = {entry.code: set(entry.statuses) for entry in CODES}
    assert listed == dict(found), (
        "add or correct the row in jqmaster/api/http/problem_codes.py, then `make spec docs`"
    )
    assert len(listed) == len(CODES)


@for_each("entry", CODES, ids=lambda entry: entry.code)
def test_every_code_says_when_and_what_to_do(entry: ProblemCode) -> None:
    assert re.fullmatch(r"[^|]+[.]", entry.when)
    assert re.fullmatch(r"[^|]+[.]", entry.remedy)


@for_each("entry", CODES, ids=lambda entry: entry.code)
def test_every_code_of_429_and_503_and_no_other_says_whether_the_request_had_no_effect(
    entry: ProblemCode,
) -> None:
    assert (entry.had_no_effect is not None) == (not {429, 503}.isdisjoint(entry.statuses))
    # Clients treat every 429 as having had no effect, also with a code that they do not know.
    assert entry.had_no_effect or 429 not in entry.statuses


def test_both_sdks_know_the_codes_of_503_with_which_a_request_had_no_effect() -> None:
    codes = {entry.code for entry in CODES if 503 in entry.statuses and entry.had_no_effect}
    assert {"overloaded", "store_unavailable"} < codes
    assert codes == protocol.NO_EFFECT_CODES
    text = TYPESCRIPT.read_text("utf-8").partition("NO_EFFECT_CODES")[2]
    assert set(re.findall(r'"(\w+)"', text)) == codes
    for entry in CODES:
        for status in entry.statuses:
            assert had_no_effect(status, entry.code) == bool(entry.had_no_effect), entry


def test_only_the_table_and_generated_modules_list_these_codes() -> None:
    folders = [(ROOT / "jqmaster", "*.py"), (ROOT / "worker_sdk", "*.py"), (TYPESCRIPT.parents[1], "*.ts")]
    sources = {path: path.read_text("utf-8") for folder, kind in folders for path in folder.rglob(kind)}
    found = {
        path
        for path, text in sources.items()
        if '"durability_unavailable"' in text and '"overloaded"' in text
    }
    assert found == {ROOT / "jqmaster/api/http/problem_codes.py", Path(str(protocol.__file__)), TYPESCRIPT}


def test_the_document_lists_the_codes_and_lets_new_ones_come() -> None:
    schemas = document("jqmaster")["components"]["schemas"]
    assert schemas["ProblemCode"]["enum"] == sorted(entry.code for entry in CODES)
    assert schemas["Problem"]["properties"]["code"]["anyOf"] == [
        {"$ref": "#/components/schemas/ProblemCode"},
        {"type": "string"},
    ]


def test_the_table_in_the_docs_is_the_one_that_make_docs_writes() -> None:
    assert (ROOT / ERRORS).read_text("utf-8") == errors_document(), "run `make docs`"
