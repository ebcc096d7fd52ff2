"""Security rules: each has a test that names it with `@pytest.mark.rule("E1.2")`."""

import ast
import functools
from pathlib import Path
from typing import Final

from tests.support.each import for_each
from tests.support.syntax import declarations

TESTS: Final = Path(__file__).parents[1]

RULES: Final = {
    "E1.1": "no route is open to anybody but those that must be; credentials are demanded wherever others could call",
    "E1.2": "tokens: kept as digests, shown once, expiring, rotating, revoked everywhere within 5 s",
    "E1.3": "every scope and role against every route; tokens restricted to names",
    "E1.4": "passwords by argon2id, limited logins, no default account or secret",
    "E1.5": "session cookies are narrow, rotated at login, and end on the server",
    "E1.6": "TLS 1.2 at least, mutual TLS, certificates renewed without a dropped connection",
    "E1.7": "no secret stands on a command line",
    "E4.1": "hostile names, arguments and errors stay inert in pages",
    "E4.2": "a strict content security policy and its companions on every answer",
    "E4.3": "other sites change nothing; GET changes nothing",
    "E4.4": "no answer invites other origins",
    "E4.5": "bounded parameters, bounded work per page",
    "E6.1": "secrets and redacted parts appear nowhere",
    "E6.2": "a log line cannot be forged",
    "E6.3": "labels of metrics are bounded",
    "E6.4": "the audit log only grows, and covers what people do",
    "E6.5": "what is deleted leaves no trace",
}


@functools.cache
def marked_rules() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for path in TESTS.rglob("test_*.py"):
        text = path.read_text()
        if "mark.rule" not in text:
            continue
        for node in declarations(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                for decorator in node.decorator_list:
                    if isinstance(decorator, ast.Call):
                        names = [a.value for a in decorator.args if isinstance(a, ast.Constant)]
                        if ast.unparse(decorator.func) == "pytest.mark.rule":
                            for name in names:
                                found.setdefault(str(name), []).append(f"{path.name}::{node.name}")
    return found


@for_each("rule", RULES, ids=lambda rule: f"{rule} {RULES[rule]}")
def test_every_rule_has_a_test(rule: str) -> None:
    assert marked_rules().get(rule), f"no test is marked with rule {rule}: {RULES[rule]}"


def test_no_test_names_a_rule_that_is_not_there() -> None:
    assert marked_rules().keys() <= RULES.keys()
