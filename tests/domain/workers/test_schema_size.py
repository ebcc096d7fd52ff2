"""The size of a schema counts every path, and counting takes no longer than reading."""

import time
from typing import Any

import pytest

from jqmaster.domain.workers.schema_size import MAX_UNROLLED, unrolled_size

pytestmark = pytest.mark.req("J18")


def bomb(word: str, depth: int = 12, width: int = 8) -> dict[str, Any]:
    """Return a schema of some 2 kB with `width`^`depth` paths."""

    def node(target: int) -> Any:
        to = {"$ref": f"#/$defs/d{target}"}
        if word in ("anyOf", "oneOf", "allOf", "prefixItems"):
            return {word: [to] * width}
        if word in ("properties", "patternProperties", "dependentSchemas"):
            return {word: {f"a{n}": to for n in range(width)}}
        if word == "if":
            return {"if": to, "then": to, "else": to, "not": to, "contains": to, "propertyNames": to}
        return {"allOf": [{word: to}] * width}

    defs = {f"d{n}": node(n + 1) for n in range(depth)}
    return {"$defs": {**defs, f"d{depth}": {"const": 5}}, "$ref": "#/$defs/d0"}


@pytest.mark.parametrize(
    ("schema", "size"),
    [
        (True, 1),
        ({}, 1),
        ({"type": "object", "properties": {"a": {}, "b": {"items": {"type": "string"}}}}, 4),
        ({"$defs": {"x": {"anyOf": [{}, {}]}}, "prefixItems": [{"$ref": "#/$defs/x"}] * 3}, 1 + 3 * 4),
        ({"$defs": {"x/y": {"$anchor": "here", "not": {}}}, "anyOf": [{"$ref": "#here"}]}, 4),
        ({"$defs": {"x/y": {"not": {}}}, "$ref": "#/$defs/x~1y"}, 3),
        ({"$ref": "#/$defs/nowhere"}, 2),
        ({"$ref": "http://elsewhere/x"}, 2),
        ({"$defs": {"x": {"$anchor": "x", "anyOf": [{}, {}]}}, "$ref": "#x"}, 4),
        ({"allOf": [{"$anchor": "y"}], "$ref": "#nowhere"}, 3),
        ({"allOf": [{}, {"anyOf": [{}, {}]}], "$ref": "#/allOf/1"}, 8),
        ({"allOf": [{}], "$ref": "#/allOf/1"}, 3),
        ({"const": 5, "$ref": "#/const/x"}, 2),
        # A tree: each reference to itself counts as one.
        ({"properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}}, 5),
        ({"anyOf": 5, "properties": [], "items": "x", "$ref": 7}, 1),
    ],
)
def test_every_path_counts(schema: Any, size: int) -> None:
    assert unrolled_size(schema) == size


@pytest.mark.parametrize(
    "word",
    [
        "anyOf", "oneOf", "allOf", "prefixItems", "properties", "patternProperties", "dependentSchemas", "if", "not",
        "items", "additionalProperties", "unevaluatedProperties", "unevaluatedItems", "contains", "propertyNames",
    ],
)  # fmt: skip
def test_a_small_schema_with_billions_of_paths_is_counted_at_once(word: str) -> None:
    began_s = time.process_time()
    assert unrolled_size(bomb(word)) > 10**5 * MAX_UNROLLED
    assert time.process_time() - began_s < 1


def test_a_chain_of_references_that_is_too_long_to_follow_is_told() -> None:
    defs = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(1_000)}
    with pytest.raises(RecursionError):
        unrolled_size({"$defs": defs, "$ref": "#/$defs/d0"})
