"""Generate `worker_sdk/protocol.py` from the OpenAPI documents. It has a TypedDict for each object that the SDK
reads or writes."""

import keyword
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

HEADER: Final = '''"""The messages between master, worker and pusher.

Generated from openapi/jqmaster.yaml and openapi/worker.yaml by `make spec`; changes are made there.
"""

from __future__ import annotations

from typing import Any, Final, Literal, NotRequired, TypedDict
'''
# The types that modules of the SDK name. Types that they contain are generated, too.
NAMED_BY_THE_SDK: Final = (
    "ClaimRequest", "Dispatch", "HeartbeatAnswer", "HeartbeatRequest", "JobInput", "OutsideCallback", "Problem", "PushAnswer",
    "RegisterAnswer", "RegisterRequest", "Rejected", "ReportedClaim", "StartRequest", "WorkerStatus",
)  # fmt: skip
# The field of the schema `ProblemCode` that lists the codes of status 503 that prove that a request had no
# effect.
HAD_NO_EFFECT: Final = "x-had-no-effect"
_WIDTH: Final = 110
_SIMPLE: Final = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "null": "None",
    "object": "dict[str, Any]",
    "array": "list[Any]",
}


def python_source(documents: Sequence[Mapping[str, Any]], names: Iterable[str] = NAMED_BY_THE_SDK) -> str:
    """Return the text of a module with the types `names` and all types that they contain. Raises ValueError if
    two documents use one name for different types."""
    schemas = schemas_named(names, documents)
    # Write an alias after the types that it contains, because Python evaluates an alias. Annotations of fields
    # are never evaluated.
    literals = {name: s for name, s in schemas.items() if "enum" in s}
    objects = {name: s for name, s in schemas.items() if "properties" in s}
    unions = {name: s for name, s in schemas.items() if name not in literals and name not in objects}
    return "\n".join(
        [
            HEADER,
            *(_literal(name, schema) for name, schema in sorted(literals.items())),
            *(_codes_without_effect(s[HAD_NO_EFFECT]) for s in literals.values() if HAD_NO_EFFECT in s),
            "",
            *(_typed_dict(name, schema) for name, schema in sorted(objects.items())),
            *(f"\n{_comment(s, '')}{name} = {_type_of(s)}" for name, s in sorted(unions.items())),
            "",
        ]
    )


def schemas_named(names: Iterable[str], documents: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the schemas `names`, and all schemas that they contain, by name. Raises ValueError if two documents
    use one name for different schemas."""
    schemas: dict[str, Any] = {}
    for document in documents:
        for name, schema in document["components"]["schemas"].items():
            if schemas.setdefault(name, schema) != schema:
                raise ValueError(f"{name} means two things")
    return {name: schemas[name] for name in _with_their_parts(names, schemas)}


def _with_their_parts(names: Iterable[str], schemas: Mapping[str, Any]) -> set[str]:
    found: set[str] = set()
    to_visit = list(names)
    while to_visit:
        if (name := to_visit.pop()) not in found:
            found.add(name)
            to_visit += _references(schemas[name])
    return found


def _references(schema: Any) -> Iterator[str]:
    """Yield the names to which this part of a document refers."""
    if isinstance(schema, Mapping):
        if isinstance(ref := schema.get("$ref"), str):
            yield ref.rpartition("/")[2]
        for part in schema.values():
            yield from _references(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from _references(part)


def _literal(name: str, schema: Mapping[str, Any]) -> str:
    line = f"{name} = {_type_of(schema)}"
    return line if len(line) <= _WIDTH else "\n".join([f"{name} = Literal[", *_wrapped(schema["enum"]), "]"])


def _codes_without_effect(codes: Sequence[str]) -> str:
    lines = [
        "# Codes of status 503 that prove that the request had no effect. After any other 503, the request "
        "may have had an effect.",
        "NO_EFFECT_CODES: Final[frozenset[ProblemCode]] = frozenset(",
        "    {",
        *_wrapped(codes, indent=" " * 8),
        "    }",
        ")  # fmt: skip",
    ]
    return "\n".join(lines)


def _wrapped(values: Sequence[str], indent: str = "    ") -> list[str]:
    return textwrap.wrap(
        ", ".join(map(_quoted, values)), _WIDTH, initial_indent=indent, subsequent_indent=indent
    )


def _typed_dict(name: str, schema: Mapping[str, Any]) -> str:
    lines = ["", f"class {name}(TypedDict):"]
    if text := schema.get("description"):
        lines += [
            *textwrap.wrap(f'"""{text}"""', _WIDTH - 4, initial_indent="    ", subsequent_indent="    "),
            "",
        ]
    required = set(schema.get("required", ()))
    if any(map(keyword.iskeyword, schema["properties"])):
        # Use the call form, because a class cannot have a field with a keyword as its name.
        fields = ", ".join(
            f'"{field}": "{_type_of(described)}"' for field, described in schema["properties"].items()
        )
        return f'\n{_comment(schema, "")}{name} = TypedDict("{name}", {{{fields}}})\n'
    for field, described in schema["properties"].items():
        kind = _type_of(described)
        kind = kind if field in required else f"NotRequired[{kind}]"
        lines.append(f"{_comment(described, '    ')}    {field}: {kind}")
    return "\n".join([*lines, ""])


def _comment(schema: Mapping[str, Any], indent: str) -> str:
    text = schema.get("description", "")
    return "".join(
        f"{line}\n"
        for line in textwrap.wrap(text, _WIDTH, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}# ")
    )


def _type_of(schema: Mapping[str, Any]) -> str:
    if ref := schema.get("$ref"):
        return str(ref).rpartition("/")[2]
    if "const" in schema:
        return f"Literal[{_quoted(schema['const'])}]"
    if "enum" in schema:
        return f"Literal[{', '.join(map(_quoted, schema['enum']))}]"
    if variants := schema.get("anyOf") or schema.get("oneOf"):
        return " | ".join(dict.fromkeys(map(_type_of, variants)))
    kind = schema.get("type")
    if kind == "array" and "items" in schema:
        return f"list[{_type_of(schema['items'])}]"
    if kind == "object" and isinstance(values := schema.get("additionalProperties"), Mapping):
        return f"dict[str, {_type_of(values)}]"
    return _SIMPLE[kind] if kind else "Any"


def _quoted(value: str) -> str:
    return f'"{value}"'
