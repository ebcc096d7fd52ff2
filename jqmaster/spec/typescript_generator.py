"""Generate `clients/typescript/src/wire/protocol.ts` from the OpenAPI documents. It has an interface for each
object that the package reads or writes."""

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from jqmaster.spec.protocol_generator import HAD_NO_EFFECT, schemas_named

HEADER: Final = """/**
 * The messages between master, worker and pusher.
 *
 * Generated from openapi/jqmaster.yaml and openapi/worker.yaml by `make spec`; changes are made there.
 *
 * @module
 */
"""
# The types that modules of the package name. Types that they contain are generated, too.
NAMED_BY_THE_PACKAGE: Final = (
    "BatchRequest", "BatchView", "BulkAnswer", "ClaimRequest", "Dispatch", "EnqueueAnswer", "HeartbeatAnswer",
    "HeartbeatRequest", "JobInput", "JobRequest", "JobView", "LogLevel", "LogsAnswer", "OpenChallengeAnswer",
    "OpenChallengeRequest", "OutsideCallback", "Problem", "PushAnswer", "RegisterAnswer", "RegisterRequest", "Rejected",
    "ReportedClaim", "ResultItem", "ResultsAnswer", "ResultView", "WorkerStatus",
)  # fmt: skip
_WIDTH: Final = 116
_SIMPLE: Final = {
    "string": "string",
    "integer": "number",
    "number": "number",
    "boolean": "boolean",
    "null": "null",
    "object": "Record<string, unknown>",
    "array": "unknown[]",
}


def typescript_source(
    documents: Sequence[Mapping[str, Any]], names: Iterable[str] = NAMED_BY_THE_PACKAGE
) -> str:
    """Return the text of a module with the types `names` and all types that they contain. Raises ValueError if
    two documents use one name for different types."""
    schemas = schemas_named(names, documents)
    codes = [schema[HAD_NO_EFFECT] for schema in schemas.values() if HAD_NO_EFFECT in schema]
    return "\n".join(
        [
            HEADER,
            *(_declaration(name, schema) for name, schema in sorted(schemas.items())),
            *map(_codes_without_effect, codes),
        ]
    )


def _codes_without_effect(codes: Sequence[str]) -> str:
    values = textwrap.wrap(
        ", ".join(map(_quoted, codes)), _WIDTH, initial_indent="  ", subsequent_indent="  "
    )
    text = (
        "Codes of status 503 that prove that the request had no effect. After any other 503, the request "
        "may have had an effect."
    )
    return "\n".join(
        [
            f"{_comment({'description': text}, '')}export const NO_EFFECT_CODES: ReadonlySet<string> = new Set<ProblemCode>([",
            f"{chr(10).join(values)},",
            "]);",
            "",
        ]
    )


def _declaration(name: str, schema: Mapping[str, Any]) -> str:
    comment = _comment(schema, "")
    if "properties" not in schema:
        kind = _type_of(schema)
        if len(kind) + len(name) > _WIDTH - 15:
            kind = "".join(f"\n  | {part}" for part in kind.split(" | "))
            return f"{comment}export type {name} ={kind};\n"
        return f"{comment}export type {name} = {kind};\n"
    required = set(schema.get("required", ()))
    fields = "".join(
        f"{_comment(described, '  ')}  {field}{'' if field in required else '?'}: {_type_of(described)};\n"
        for field, described in schema["properties"].items()
    )
    return f"{comment}export interface {name} {{\n{fields}}}\n"


def _comment(schema: Mapping[str, Any], indent: str) -> str:
    # Break up `*/` in the text, because it would end the comment.
    text = " ".join(schema.get("description", "").split()).replace("*/", "* /")
    if not text:
        return ""
    if len(text) + len(indent) + 7 <= _WIDTH:
        return f"{indent}/** {text} */\n"
    lines = textwrap.wrap(text, _WIDTH - len(indent) - 3)
    return "\n".join([f"{indent}/**", *(f"{indent} * {line}" for line in lines), f"{indent} */", ""])


def _type_of(schema: Mapping[str, Any]) -> str:
    if ref := schema.get("$ref"):
        return str(ref).rpartition("/")[2]
    if "const" in schema:
        return _quoted(schema["const"])
    if "enum" in schema:
        return " | ".join(map(_quoted, schema["enum"]))
    if variants := schema.get("anyOf") or schema.get("oneOf"):
        kinds = dict.fromkeys(map(_type_of, variants))
        if "unknown" in kinds:
            return "unknown"
        # In a union with named types, write `string` as `string & {}`. Editors then still show the names of the
        # known values.
        names_values = any("$ref" in variant for variant in variants)
        return " | ".join("(string & {})" if names_values and kind == "string" else kind for kind in kinds)
    kind = schema.get("type")
    if kind == "array" and "items" in schema:
        inner = _type_of(schema["items"])
        return f"({inner})[]" if " | " in inner else f"{inner}[]"
    if kind == "object" and isinstance(values := schema.get("additionalProperties"), Mapping):
        return f"Record<string, {_type_of(values)}>"
    return _SIMPLE[kind] if kind else "unknown"


def _quoted(value: str) -> str:
    return f'"{value}"'
