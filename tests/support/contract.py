"""Checks answers against the OpenAPI documents. Each test that calls a master thereby checks the contract."""

import functools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema_rs
import yaml
from jsonschema import Draft202012Validator

OPENAPI = Path(__file__).parents[2] / "openapi"
# PyYAML has the parser in C only where libyaml was there when it was built.
QUICK_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@functools.cache
def document(name: str) -> dict[str, Any]:
    """The committed `openapi/{name}.yaml`."""
    return yaml.load((OPENAPI / f"{name}.yaml").read_text(), QUICK_LOADER)


@functools.cache
def _paths(name: str) -> list[tuple[re.Pattern[str], dict[str, Any]]]:
    paths = document(name)["paths"].items()
    return [(re.compile(re.sub(r"{\w+}", "[^/]*", path)), operations) for path, operations in paths]


def _schema(name: str, ref: str) -> dict[str, Any]:
    """Return a schema with those that it needs. A validator that knows all of them is twenty times as slow to make."""
    every = document(name)["components"]["schemas"]
    needed: dict[str, Any] = {}
    waiting = [{"$ref": ref}]
    while waiting:
        for found in re.findall(r"'#/components/schemas/([^']+)'", repr(waiting.pop())):
            if found not in needed:
                needed[found] = every[found]
                waiting.append(every[found])
    return {"$ref": ref, "components": {"schemas": needed}}


@functools.cache
def _quick_validator(name: str, ref: str) -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator(_schema(name, ref))


@functools.cache
def _validator(name: str, ref: str) -> Draft202012Validator:
    return Draft202012Validator(_schema(name, ref))


def _is_quickly_valid(name: str, ref: str, value: Any) -> bool:
    """Return whether the quick validator, which only knows JSON types, accepts the value."""
    try:
        return _quick_validator(name, ref).is_valid(value)
    except ValueError:
        return False


def operation_of(name: str, method: str, url_path: str) -> dict[str, Any] | None:
    for pattern, operations in _paths(name):
        if pattern.fullmatch(url_path.partition("?")[0]):
            found: dict[str, Any] | None = operations.get(method.lower())
            return found
    return None


def check_schema(name: str, schema: Mapping[str, Any], value: Any) -> None:
    """Raise AssertionError if `value` does not match `schema` from the document `name`."""
    variants = schema.get("anyOf", [schema])
    if value is None and {"type": "null"} in variants:
        return
    ref = variants[0].get("$ref")
    if ref is None:
        assert not schema, f"not a reference: {schema}"
        return
    if _is_quickly_valid(name, ref, value):
        return
    errors = [f"{list(e.absolute_path)}: {e.message[:300]}" for e in _validator(name, ref).iter_errors(value)]
    assert not errors, errors


def check_answer(
    method: str, url_path: str, status: int, headers: Mapping[str, str], value: Any, *, name: str = "jqmaster"
) -> None:
    """Raise AssertionError if the document does not promise this answer. Unknown paths and methods promise nothing."""
    operation = operation_of(name, method, url_path)
    if operation is None:
        assert status in (400, 404, 405, 501), f"{method} {url_path} is not documented and answered {status}"
        return
    promised = operation["responses"].get(str(status))
    assert promised is not None, f"{method} {url_path}: {status} is not documented ({value})"
    if ref := promised.get("$ref"):
        promised = document(name)["components"]["responses"][ref.rpartition("/")[2]]
    for header, described in promised.get("headers", {}).items():
        assert not described.get("required", True) or header.lower() in headers, (
            f"{method} {url_path}: {status} without {header}"
        )
    content = promised.get("content")
    if content is None:
        assert value is None
        return
    media_type = headers["content-type"]
    assert media_type in content, f"{method} {url_path}: {status} as {media_type}"
    check_schema(name, content[media_type]["schema"], value)
