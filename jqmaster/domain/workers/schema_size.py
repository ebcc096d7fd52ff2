"""The size of a JSON Schema after each reference is replaced by its target."""

from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import unquote

# Maximum number of subschemas, counted once for each path that leads to them. A schema of 2 kB may have billions.
MAX_UNROLLED: Final = 10_000

_ONE: Final = (
    "not", "if", "then", "else", "items", "additionalItems", "contains", "additionalProperties", "propertyNames",
    "unevaluatedItems", "unevaluatedProperties", "contentSchema",
)  # fmt: skip
_LISTS: Final = ("anyOf", "oneOf", "allOf", "prefixItems", "items")
_MAPS: Final = ("properties", "patternProperties", "dependentSchemas", "dependencies")
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")


def unrolled_size(schema: Any) -> int:
    """Return the number of subschemas over all paths from the root. A reference to a schema on its own path (a
    recursion) counts as one, because its depth depends on the argument. Raise RecursionError if a chain of references
    is too long to follow."""
    return _Sizes(schema).of(schema)


class _Sizes:
    def __init__(self, root: Any) -> None:
        self._root = root
        self._anchors: dict[str, Any] | None = None
        # By `id` of a subschema: its size. The schema outlives this object, so no other object gets the same `id`.
        self._known: dict[int, int] = {}
        self._on_path: set[int] = set()

    def of(self, schema: Any) -> int:
        if not isinstance(schema, Mapping):
            return 1
        if id(schema) in self._known:
            return self._known[id(schema)]
        if id(schema) in self._on_path:
            return 1
        self._on_path.add(id(schema))
        size = 1 + sum(map(self.of, self._parts(schema)))
        self._on_path.remove(id(schema))
        self._known[id(schema)] = size
        return size

    def _parts(self, schema: Mapping[str, Any]) -> Iterator[Any]:
        for word in _ONE:
            if isinstance(schema.get(word), Mapping):
                yield schema[word]
        for word in _LISTS:
            if isinstance(schema.get(word), list):
                yield from schema[word]
        for word in _MAPS:
            if isinstance(schema.get(word), Mapping):
                yield from schema[word].values()
        for word in _REFERENCES:
            if isinstance(schema.get(word), str):
                yield self._target(schema[word])

    def _target(self, reference: str) -> Any:
        """Return the target of a reference. A reference that leads out of the schema or to nothing has no size, because
        such a schema is refused anyway."""
        _, _, fragment = reference.partition("#")
        if fragment and not fragment.startswith("/"):
            return self._anchored(fragment)
        found = self._root
        for part in fragment.split("/")[1:]:
            key = unquote(part).replace("~1", "/").replace("~0", "~")
            if isinstance(found, Mapping):
                found = found.get(key)
            elif isinstance(found, list) and key.isdecimal() and int(key) < len(found):
                found = found[int(key)]
            else:
                return None
        return found

    def _anchored(self, name: str) -> Any:
        if self._anchors is None:
            self._anchors = {}
            pending = [self._root]
            while pending:
                one = pending.pop()
                if isinstance(one, Mapping):
                    for word in ("$anchor", "$dynamicAnchor"):
                        if isinstance(one.get(word), str):
                            self._anchors.setdefault(one[word], one)
                    pending += one.values()
                elif isinstance(one, list):
                    pending += one
        return self._anchors.get(name)
