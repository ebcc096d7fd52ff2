"""openapi/ matches the code and is valid and complete, with correct examples."""

import re
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate
from starlette.routing import Route

from jqmaster.api.http.endpoint import Endpoint
from jqmaster.api.jobs.outcome_schemas import ENDINGS, ResultItem
from jqmaster.api.routes import OPERATIONS
from jqmaster.domain.namespaces.namespace import NAME_PATTERN
from jqmaster.spec.openapi import generated_files
from tests.support.contract import document
from tests.support.master import app_alone

ROOT = Path(__file__).parents[2]
NAMES = ("jqmaster", "worker")
METHODS = {"get", "post", "put", "patch", "delete"}


def operations(name: str) -> list[tuple[str, str, dict[str, Any]]]:
    return [(m, p, op) for p, ops in document(name)["paths"].items() for m, op in ops.items() if m in METHODS]


def parameters_of(name: str, operation: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the parameters, including those shared by all operations."""
    shared = document(name)["components"].get("parameters", {})
    return [shared[p["$ref"].rpartition("/")[2]] if "$ref" in p else p for p in operation["parameters"]]


@pytest.mark.req("J11")
def test_generated_files_are_up_to_date() -> None:
    changed = [path for path, text in generated_files().items() if (ROOT / path).read_text() != text]
    assert changed == [], "these differ from the code: run `make spec`"


@pytest.mark.req("J11")
@pytest.mark.parametrize("name", NAMES)
def test_the_documents_are_valid(name: str) -> None:
    validate(document(name))
    for schema in document(name)["components"]["schemas"].values():
        jsonschema_rs.meta.validate(schema)


@pytest.mark.req("J11")
def test_every_route_is_documented_and_everything_documented_is_a_route() -> None:
    routed = set()
    for route in app_alone().routes:
        assert isinstance(route, Route)
        assert isinstance(route.endpoint, Endpoint), (
            f"{route.path} is served by something without an operation"
        )
        path = route.path.replace(":path}", "}")
        routed |= {(method.lower(), path) for method in route.endpoint.methods}
    documented = {(method, path) for method, path, _ in operations("jqmaster")}
    assert routed == documented == {(op.method.lower(), op.path) for op in OPERATIONS}


@pytest.mark.parametrize("name", NAMES)
def test_every_operation_has_a_name_a_summary_and_examples(name: str) -> None:
    ids = [operation["operationId"] for _, _, operation in operations(name)]
    assert len(set(ids)) == len(ids)
    for method, path, operation in operations(name):
        where = f"{method} {path}"
        assert operation["summary"], where
        parameters = parameters_of(name, operation)
        assert {p["name"] for p in parameters if p["in"] == "path"} == set(re.findall(r"{(\w+)}", path)), (
            where
        )
        for parameter in parameters:
            assert parameter.get("description"), (where, parameter["name"])
        for media in operation.get("requestBody", {"content": {}})["content"].values():
            assert "example" in media, where
        for status, response in operation["responses"].items():
            assert response.get("description") or response["$ref"], (where, status)


@pytest.mark.parametrize("name", NAMES)
def test_every_example_is_of_its_schema(name: str) -> None:
    components = document(name)["components"]

    def check(schema: Any, example: Any, where: str) -> None:
        validator = Draft202012Validator({**schema, "components": components})
        assert [error.message for error in validator.iter_errors(example)] == [], where

    seen = 0
    for method, path, operation in operations(name):
        bodies = [operation.get("requestBody", {}), *operation["responses"].values()]
        for media in (media for body in bodies for media in body.get("content", {}).values()):
            if "example" in media:
                check(media["schema"], media["example"], f"{method} {path}")
                seen += 1
    for owner, schema in components["schemas"].items():
        for field, described in schema.get("properties", {}).items():
            for example in described.get("examples", []):
                check(described, example, f"{owner}.{field}")
    assert seen >= 5


def test_the_master_refuses_unknown_fields_and_workers_pass_over_them() -> None:
    schemas = document("jqmaster")["components"]["schemas"]
    for owner in (owner for owner in schemas if owner.endswith(("Request", "Item", "Ref"))):
        assert schemas[owner].get("additionalProperties") is False or "oneOf" in schemas[owner], owner
    for owner, schema in document("worker")["components"]["schemas"].items():
        assert "additionalProperties" not in schema, owner


@pytest.mark.parametrize("name", NAMES)
def test_defaults_are_of_their_schema(name: str) -> None:
    schemas = document(name)["components"]["schemas"]
    for owner, schema in schemas.items():
        for field, described in schema.get("properties", {}).items():
            if "default" in described:
                validator = Draft202012Validator({**described, "components": {"schemas": schemas}})
                assert [e.message for e in validator.iter_errors(described["default"])] == [], (
                    f"{owner}.{field}"
                )


def test_a_503_says_when_to_come_again() -> None:
    for method, path, operation in operations("jqmaster"):
        response = operation["responses"].get("503", {})
        if ref := response.get("$ref"):
            response = document("jqmaster")["components"]["responses"][ref.rpartition("/")[2]]
        assert "Retry-After" in response["headers"], (method, path)


def test_a_name_in_a_path_is_described_by_its_kind() -> None:
    named = {}
    for path, operations in document("jqmaster")["paths"].items():
        kind, found, _ = path.removeprefix("/api/").partition("/{name}")
        for operation in operations.values() if found else ():
            (parameter,) = (one for one in operation["parameters"] if one.get("name") == "name")
            named[kind] = parameter["example"]
            assert parameter["description"] == f"Name of the {kind.removesuffix('s')}."
    assert set(named) == {"calendars", "constraints", "definitions", "namespaces", "notices", "targets"}
    assert re.fullmatch(NAME_PATTERN, named["namespaces"])


def test_every_ending_is_documented() -> None:
    schema = document("jqmaster")["components"]["schemas"]["ResultItem"]
    assert set(schema["discriminator"]["mapping"]) == set(ENDINGS)
    assert ResultItem.model_fields["root"].discriminator == "type"


def test_every_secured_operation_names_its_scope() -> None:
    for operation in OPERATIONS:
        described = document("jqmaster")["paths"][operation.path][operation.method.lower()]
        accepted = [scope for scope in (operation.access, operation.also) if scope]
        assert described["security"] == [*({"bearer": [scope]} for scope in accepted), {}]


def test_json_is_offered_first_because_generated_clients_take_the_first() -> None:
    for method, path, operation in operations("jqmaster"):
        for body in [operation.get("requestBody", {}), *operation["responses"].values()]:
            if len(content := body.get("content", {})) > 1:
                assert next(iter(content)) == "application/json", (method, path)
    for name, response in document("jqmaster")["components"]["responses"].items():
        assert next(iter(response["content"])) == "application/problem+json", name


@pytest.mark.parametrize("name", NAMES)
def test_the_documents_name_their_server(name: str) -> None:
    assert document(name)["servers"][0]["url"]


@pytest.mark.parametrize("name", NAMES)
def test_no_field_is_required_that_may_be_missing(name: str) -> None:
    for owner, schema in document(name)["components"]["schemas"].items():
        for field in schema.get("required", []):
            described = schema["properties"][field]
            assert "missing" not in described.get("description", ""), f"{owner}.{field}"
            assert "default" not in described, f"{owner}.{field}"


@pytest.mark.parametrize("name", NAMES)
def test_no_two_enums_get_one_name_from_generators(name: str) -> None:
    """Generators name an inline enum after its owner (a model or an operation) and its field."""
    names = []
    for owner, schema in document(name)["components"]["schemas"].items():
        names += [
            (owner.lower(), field) for field, of in schema.get("properties", {}).items() if "enum" in of
        ]
    for _, _, operation in operations(name):
        owner = operation["operationId"].replace("_", "")
        names += [(owner, p["name"]) for p in parameters_of(name, operation) if "enum" in p["schema"]]
    assert len(set(names)) == len(names)


def test_paths_that_two_templates_match_are_the_known_ones() -> None:
    """The fixed path takes precedence, as OpenAPI says. Job IDs are UUIDs, so never `actions` or `preview`."""
    paths = list(document("jqmaster")["paths"])

    def may_be_one(path: str, other: str) -> bool:
        pairs = zip(path.split("/"), other.split("/"), strict=True)
        return all(a == b or "{" in a + b for a, b in pairs)

    ambiguous = {
        frozenset((path, other))
        for n, path in enumerate(paths)
        for other in paths[:n]
        if path.count("/") == other.count("/")
        and may_be_one(path, other)
        # Every router and generator prefers a fixed path to a templated one.
        and "{" in path
        and "{" in other
    }
    assert ambiguous == {
        frozenset(("/api/jobs/actions/{action_id}", f"/api/jobs/{{job_id}}/{what}"))
        for what in (
            "result",
            "why",
            "parts",
            "stream",
            "logs",
            "cancel",
            "retry",
            "run",
            "challenges",
            "deliveries",
            "flow",
            "erase",
        )
    }
