"""Forms with which people answer challenges, and the answers. A form has choices, a few fields and a comment."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from enum import StrEnum
from typing import Any, Final, Literal

from jqmaster.errors import FieldError

MAX_TITLE: Final = 200
MAX_DESCRIPTION: Final = 4_000
MAX_CHOICES: Final = 10
MAX_LABEL: Final = 80
MAX_FIELDS: Final = 20
MAX_OPTIONS: Final = 100
MAX_FIELD_TEXT: Final = 500
MAX_TEXT: Final = 4_000
MAX_COMMENT: Final = 2_000
MAX_FORM_BYTES: Final = 16 * 1024
CHOICE_PATTERN: Final = r"^[A-Za-z0-9_.-]{1,64}$"
# The largest number that a form accepts. Larger numbers lose digits in other languages.
MAX_NUMBER: Final = 2**53 - 1

_FIELD_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,16}")
_NUMBER: Final = re.compile(r"[+-]?([0-9]{1,20}(\.[0-9]{0,20})?|\.[0-9]{1,20})([eE][+-]?[0-9]{1,3})?")
_MAIL: Final = re.compile(r"[^@\s]{1,64}@[^@\s]{1,190}")
_URI: Final = re.compile(r"https?://[^\s]{1,2000}")
_KEYWORDS: Final = frozenset({"type", "properties", "required", "additionalProperties", "title", "$schema"})
_TEXTS: Final = frozenset({"title", "description"})
_OF_KIND: Final[Mapping[str, frozenset[str]]] = {
    "string": frozenset({"enum", "minLength", "maxLength", "format"}),
    "integer": frozenset({"enum", "minimum", "maximum"}),
    "number": frozenset({"enum", "minimum", "maximum"}),
    "boolean": frozenset(),
}
_FORMATS: Final = ("date", "email", "uri")

Loc = tuple[str | int, ...]
Value = str | int | float | bool


class Audience(StrEnum):
    """The people who may answer a challenge that has a form.

    * `link`: everybody who has its address.
    * `users`: users who are logged in and have the scope `operate`.
    """

    LINK = "link"
    USERS = "users"


class Comment(StrEnum):
    """Rule for the comment of an answer: none, an optional one, or a required one."""

    NONE = "none"
    OPTIONAL = "optional"
    REQUIRED = "required"


@dataclass(frozen=True, slots=True)
class Choice:
    """A way to answer. `skips_fields`: an answer with this choice has no field values."""

    value: str
    label: str = ""
    needs_comment: bool = False
    skips_fields: bool = False


DEFAULT_CHOICES: Final = (Choice("approve"), Choice("reject", skips_fields=True))


@dataclass(frozen=True, slots=True)
class FormField:
    """A field that people fill in. `options` empty: any value of its kind."""

    name: str
    kind: Literal["string", "integer", "number", "boolean"]
    title: str = ""
    description: str = ""
    is_required: bool = False
    default: Value | None = None
    options: tuple[Value, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    min_length: int = 0
    max_length: int = MAX_TEXT
    format: str = ""

    @property
    def label(self) -> str:
        """Return the text that names the field for people."""
        return self.title or self.name


@dataclass(frozen=True, slots=True)
class Form:
    """A question to people. `schema`: the JSON Schema from which `fields` were read. None: the form has no fields."""

    title: str
    description: str = ""
    choices: tuple[Choice, ...] = DEFAULT_CHOICES
    comment: Comment = Comment.OPTIONAL
    fields: tuple[FormField, ...] = ()
    schema: Mapping[str, Any] | None = field(default=None, compare=False)

    def choice(self, value: str) -> Choice | None:
        """Return the choice of this value, or None if there is none."""
        return next((one for one in self.choices if one.value == value), None)


class FormError(ValueError):
    """A form that is refused. `loc`: the path to the faulty part; `msg`: the rule that it breaks."""

    def __init__(self, loc: Loc, msg: str) -> None:
        super().__init__(msg)
        self.loc = loc
        self.msg = msg


@dataclass(frozen=True, slots=True)
class Submission:
    """An answer to a form. A checked answer has only values that the form asks for."""

    choice: str
    comment: str = ""
    values: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GivenAnswer:
    """An answer as stored with its challenge.

    * `by`: the person who gave it; empty for a person who only had the link.
    * `address`: the network address of that person.
    """

    choice: str
    comment: str
    by: str
    address: str
    at_ms: int


# --- forms


def form_of(document: Mapping[str, Any]) -> Form:
    """Return the form of a document. The types of its members have been checked already. Raise FormError."""
    choices = tuple(_choice(one) for one in document.get("choices") or ()) or DEFAULT_CHOICES
    values = [one.value for one in choices]
    if len(set(values)) < len(values):
        raise FormError(("choices",), "two choices have the same value")
    comment = Comment(document.get("comment", Comment.OPTIONAL))
    if comment is Comment.NONE and any(one.needs_comment for one in choices):
        raise FormError(("comment",), "a choice needs a comment, and the form has none")
    schema = document.get("fields")
    return Form(
        document["title"],
        document.get("description") or "",
        choices,
        comment,
        () if schema is None else _fields(schema),
        schema,
    )


def document_of(form: Form) -> dict[str, Any]:
    """Return the document of a form."""
    return {
        "title": form.title,
        "description": form.description,
        "choices": [
            {
                "value": one.value,
                "label": one.label,
                "needs_comment": one.needs_comment,
                "skips_fields": one.skips_fields,
            }
            for one in form.choices
        ],
        "comment": str(form.comment),
        "fields": None if form.schema is None else dict(form.schema),
    }


def _choice(document: Mapping[str, Any]) -> Choice:
    return Choice(
        document["value"],
        document.get("label") or "",
        bool(document.get("needs_comment")),
        bool(document.get("skips_fields")),
    )


def _fields(schema: Mapping[str, Any]) -> tuple[FormField, ...]:
    at: Loc = ("fields",)
    if schema.get("type") != "object":
        raise FormError((*at, "type"), 'must be "object"')
    _refuse_unknown(at, schema, _KEYWORDS)
    properties = schema.get("properties", {})
    if not isinstance(properties, dict):
        raise FormError((*at, "properties"), "must be an object")
    if len(properties) > MAX_FIELDS:
        raise FormError((*at, "properties"), f"at most {MAX_FIELDS} fields")
    required = schema.get("required", [])
    if not isinstance(required, list) or not all(isinstance(one, str) for one in required):
        raise FormError((*at, "required"), "must be a list of names of fields")
    for index, name in enumerate(required):
        if name not in properties:
            raise FormError((*at, "required", index), "names no field")
    return tuple(_field(name, one, name in required) for name, one in properties.items())


def _field(name: object, schema: object, is_required: bool) -> FormField:
    at: Loc = ("fields", "properties", name if isinstance(name, str) else "")
    if not isinstance(name, str) or not _FIELD_NAME.fullmatch(name):
        raise FormError(at, "the name of a field must be 1 to 64 of A-Z a-z 0-9 _ . -")
    if not isinstance(schema, dict):
        raise FormError(at, "must be an object")
    kind = schema.get("type")
    if kind not in ("string", "integer", "number", "boolean"):
        raise FormError((*at, "type"), "must be string, integer, number or boolean")
    _refuse_unknown(at, schema, {"type", "default", *_TEXTS, *_OF_KIND[kind]})
    for key in _TEXTS:
        if not isinstance(schema.get(key, ""), str) or len(schema.get(key, "")) > MAX_FIELD_TEXT:
            raise FormError((*at, key), f"must be a text of at most {MAX_FIELD_TEXT} characters")
    form = schema.get("format", "")
    if form and form not in _FORMATS:
        raise FormError((*at, "format"), f"must be one of {', '.join(_FORMATS)}")
    found = FormField(
        name,
        kind,
        schema.get("title", ""),
        schema.get("description", ""),
        is_required,
        None,
        _options(at, schema, kind),
        _bound((*at, "minimum"), schema.get("minimum")),
        _bound((*at, "maximum"), schema.get("maximum")),
        _length((*at, "minLength"), schema.get("minLength", 0)),
        _length((*at, "maxLength"), schema.get("maxLength", MAX_TEXT)),
        form,
    )
    default = schema.get("default")
    if default is not None and (fault := fault_of(found, default)):
        raise FormError((*at, "default"), fault)
    return found if default is None else replace(found, default=default)


def _refuse_unknown(at: Loc, schema: Mapping[Any, Any], known: Iterable[str]) -> None:
    unknown = next((key for key in schema if key not in set(known)), None)
    if unknown is not None:
        raise FormError((*at, str(unknown)[:64]), "a form must not have this keyword here")


def _options(at: Loc, schema: Mapping[str, Any], kind: str) -> tuple[Value, ...]:
    options = schema.get("enum")
    if options is None:
        return ()
    if not isinstance(options, list) or not 0 < len(options) <= MAX_OPTIONS:
        raise FormError((*at, "enum"), f"must be a list of 1 to {MAX_OPTIONS} values")
    for index, one in enumerate(options):
        if not _is_of_kind(kind, one) or (isinstance(one, str) and not 0 < len(one) <= MAX_FIELD_TEXT):
            raise FormError((*at, "enum", index), f"must be a value of the type {kind}")
    if len(set(options)) < len(options):
        raise FormError((*at, "enum"), "two values are the same")
    return tuple(options)


def _bound(at: Loc, value: object) -> float | None:
    if value is not None and not _is_of_kind("number", value):
        raise FormError(at, "must be a number")
    return value  # type: ignore[return-value]


def _length(at: Loc, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_TEXT:
        raise FormError(at, f"must be a whole number from 0 to {MAX_TEXT}")
    return value


def _is_of_kind(kind: str, value: object) -> bool:
    if kind == "string":
        return isinstance(value, str)
    if kind == "boolean":
        return isinstance(value, bool)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    if isinstance(value, float) and not math.isfinite(value):
        return False
    return abs(value) <= MAX_NUMBER and (kind == "number" or isinstance(value, int))


# --- answers


def fault_of(asked: FormField, value: object) -> str | None:
    """Return the rule that a value of a field breaks, or None if the value is valid."""
    if not _is_of_kind(asked.kind, value):
        return f"must be of the type {asked.kind}"
    if asked.options and value not in asked.options:
        return "must be one of the values of the list"
    if isinstance(value, str):
        if not asked.min_length <= len(value) <= asked.max_length:
            return f"must have {asked.min_length} to {asked.max_length} characters"
        return _fault_of_format(asked.format, value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        if asked.minimum is not None and value < asked.minimum:
            return f"must be at least {asked.minimum}"
        if asked.maximum is not None and value > asked.maximum:
            return f"must be at most {asked.maximum}"
    return None


def _fault_of_format(form: str, value: str) -> str | None:
    if form == "date":
        try:
            date.fromisoformat(value if len(value) == len("2026-11-21") else "")
        except ValueError:
            return "must be a date such as 2026-11-21"
    if form == "email" and not _MAIL.fullmatch(value):
        return "must be a mail address"
    if form == "uri" and not _URI.fullmatch(value):
        return "must be an address that begins with http:// or https://"
    return None


def check_submission(
    form: Form, choice: str, comment: str, values: Mapping[str, Any]
) -> tuple[Submission, Sequence[FieldError]]:
    """Return the answer and all its faults. The answer has no values that the form does not ask for."""
    errors = []
    chosen = form.choice(choice)
    if chosen is None:
        errors.append(
            FieldError(("choice",), f"must be one of {', '.join(one.value for one in form.choices)}")
        )
    comment = comment.strip()
    if form.comment is Comment.NONE and comment:
        errors.append(FieldError(("comment",), "the form asks for no comment"))
    needs_comment = form.comment is Comment.REQUIRED or (chosen is not None and chosen.needs_comment)
    if needs_comment and not comment:
        errors.append(FieldError(("comment",), "is required"))
    if len(comment) > MAX_COMMENT:
        errors.append(FieldError(("comment",), f"at most {MAX_COMMENT} characters"))
    kept: dict[str, Value] = {}
    if chosen is None or not chosen.skips_fields:
        asked = {one.name: one for one in form.fields}
        errors += [
            FieldError(("values", name[:64]), "the form has no such field") for name in values.keys() - asked
        ]
        for name, one in asked.items():
            value = values.get(name)
            if value is None:
                if one.is_required:
                    errors.append(FieldError(("values", name), "is required"))
            elif fault := fault_of(one, value):
                errors.append(FieldError(("values", name), fault))
            else:
                kept[name] = value
    return Submission(choice, comment, kept), errors


def values_of_texts(form: Form, texts: Mapping[str, str]) -> dict[str, Any]:
    """Return the field values for the texts that a browser sent. A text that does not fit the kind of its field stays a
    text. An empty text gives no value. Browsers do not send unticked boxes, so a missing one means false."""
    found: dict[str, Any] = {}
    for asked in form.fields:
        text = texts.get(asked.name, "")
        if asked.kind == "boolean":
            found[asked.name] = bool(text)
        elif text.strip():
            found[asked.name] = _value_of(asked, text)
    return found


def _value_of(asked: FormField, text: str) -> Value:
    # Browsers send the line breaks of a text area as \r\n.
    text = text.replace("\r\n", "\n")
    stripped = text.strip()
    if asked.kind == "integer" and _INTEGER.fullmatch(stripped):
        return int(stripped)
    if asked.kind == "number" and _NUMBER.fullmatch(stripped):
        return int(stripped) if _INTEGER.fullmatch(stripped) else float(stripped)
    return text
