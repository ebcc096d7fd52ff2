"""Forms of challenges: which questions a form may ask, and which answers are valid."""

from typing import Any

import pytest

from jqmaster.domain.challenges.challenge_form import (
    MAX_COMMENT,
    MAX_FIELDS,
    MAX_OPTIONS,
    Choice,
    Comment,
    Form,
    FormError,
    FormField,
    Submission,
    check_submission,
    document_of,
    fault_of,
    form_of,
    values_of_texts,
)

pytestmark = pytest.mark.req("P10")

FIELDS: dict[str, Any] = {
    "type": "object",
    "title": "Refund",
    "properties": {
        "amount": {"type": "number", "minimum": 0, "maximum": 100.5, "title": "Amount"},
        "pieces": {"type": "integer", "default": 1},
        "reason": {"type": "string", "enum": ["damaged", "late"], "description": "Why?"},
        "note": {"type": "string", "minLength": 2, "maxLength": 5},
        "day": {"type": "string", "format": "date"},
        "mail": {"type": "string", "format": "email"},
        "link": {"type": "string", "format": "uri"},
        "is_new": {"type": "boolean"},
    },
    "required": ["amount"],
}
TOO_MANY = {f"f{n}": {"type": "string"} for n in range(MAX_FIELDS + 1)}
FORM = form_of(
    {
        "title": "Refund?",
        "choices": [
            {"value": "approve"},
            {"value": "reject", "label": "No", "needs_comment": True, "skips_fields": True},
        ],
        "fields": FIELDS,
    }
)


def test_a_form_is_read_and_written() -> None:
    assert form_of(document_of(FORM)) == FORM
    assert form_of({"title": "t"}) == Form("t")
    assert document_of(Form("t"))["fields"] is None
    assert [choice.value for choice in Form("t").choices] == ["approve", "reject"]
    assert (FORM.choice("reject"), FORM.choice("x")) == (Choice("reject", "No", True, True), None)
    amount, pieces, reason, *_ = FORM.fields
    assert (amount.label, amount.is_required, amount.minimum, amount.maximum) == ("Amount", True, 0, 100.5)
    assert (pieces.label, pieces.default, reason.options) == ("pieces", 1, ("damaged", "late"))


def with_field(**schema: Any) -> dict[str, Any]:
    return {"fields": {"type": "object", "properties": {"f": schema}}}


@pytest.mark.parametrize(
    ("part", "loc"),
    [
        ({"choices": [{"value": "a"}, {"value": "a"}]}, ("choices",)),
        ({"choices": [{"value": "a", "needs_comment": True}], "comment": "none"}, ("comment",)),
        ({"fields": {}}, ("fields", "type")),
        ({"fields": {"type": "object", "allOf": []}}, ("fields", "allOf")),
        ({"fields": {"type": "object", "properties": []}}, ("fields", "properties")),
        ({"fields": {"type": "object", "properties": TOO_MANY}}, ("fields", "properties")),
        ({"fields": {"type": "object", "required": "f"}}, ("fields", "required")),
        ({"fields": {"type": "object", "required": [1]}}, ("fields", "required")),
        ({"fields": {"type": "object", "required": ["g"]}}, ("fields", "required", 0)),
        ({"fields": {"type": "object", "properties": {"a b": {"type": "string"}}}}, ("fields", "properties", "a b")),
        ({"fields": {"type": "object", "properties": {1: {"type": "string"}}}}, ("fields", "properties", "")),
        ({"fields": {"type": "object", "properties": {"f": "string"}}}, ("fields", "properties", "f")),
        (with_field(type="array"), ("fields", "properties", "f", "type")),
        (with_field(type="boolean", enum=[True]), ("fields", "properties", "f", "enum")),
        (with_field(type="string", pattern="(a+)+$"), ("fields", "properties", "f", "pattern")),
        (with_field(type="string", title=1), ("fields", "properties", "f", "title")),
        (with_field(type="string", description="x" * 501), ("fields", "properties", "f", "description")),
        (with_field(type="string", format="ipv4"), ("fields", "properties", "f", "format")),
        (with_field(type="string", enum=[]), ("fields", "properties", "f", "enum")),
        (with_field(type="string", enum="ab"), ("fields", "properties", "f", "enum")),
        (with_field(type="integer", enum=list(range(MAX_OPTIONS + 1))), ("fields", "properties", "f", "enum")),
        (with_field(type="string", enum=["a", 1]), ("fields", "properties", "f", "enum", 1)),
        (with_field(type="string", enum=[""]), ("fields", "properties", "f", "enum", 0)),
        (with_field(type="string", enum=["a", "a"]), ("fields", "properties", "f", "enum")),
        (with_field(type="number", minimum="0"), ("fields", "properties", "f", "minimum")),
        (with_field(type="number", maximum=float("inf")), ("fields", "properties", "f", "maximum")),
        (with_field(type="string", minLength=-1), ("fields", "properties", "f", "minLength")),
        (with_field(type="string", maxLength=True), ("fields", "properties", "f", "maxLength")),
        (with_field(type="integer", default="1"), ("fields", "properties", "f", "default")),
    ],
)  # fmt: skip
def test_a_form_that_does_not_fit_is_refused_with_its_part(
    part: dict[str, Any], loc: tuple[Any, ...]
) -> None:
    with pytest.raises(FormError) as refused:
        form_of({"title": "t", **part})
    assert (refused.value.loc, bool(refused.value.msg)) == (loc, True)


@pytest.mark.parametrize(
    ("name", "value", "fault"),
    [
        ("amount", 100.5, None),
        ("amount", -1, "must be at least 0"),
        ("amount", 101, "must be at most 100.5"),
        ("amount", True, "must be of the type number"),
        ("amount", float("nan"), "must be of the type number"),
        ("amount", 2**60, "must be of the type number"),
        ("pieces", 1.0, "must be of the type integer"),
        ("reason", "late", None),
        ("reason", "other", "must be one of the values of the list"),
        ("note", "x", "must have 2 to 5 characters"),
        ("note", 1, "must be of the type string"),
        ("day", "2026-11-21", None),
        ("day", "20261121", "must be a date such as 2026-11-21"),
        ("day", "2026-13-21", "must be a date such as 2026-11-21"),
        ("mail", "ada@shop.example", None),
        ("mail", "ada", "must be a mail address"),
        ("link", "https://shop.example/42", None),
        ("link", "javascript:alert(1)", "must be an address that begins with http:// or https://"),
        ("is_new", False, None),
        ("is_new", 0, "must be of the type boolean"),
    ],
)
def test_values_are_held_against_their_fields(name: str, value: Any, fault: str | None) -> None:
    (asked,) = (one for one in FORM.fields if one.name == name)
    assert fault_of(asked, value) == fault


def test_an_answer_has_nothing_that_the_form_does_not_ask_for() -> None:
    answer, errors = check_submission(FORM, "approve", " fine ", {"amount": 3, "note": None})
    assert (answer, errors) == (Submission("approve", "fine", {"amount": 3}), [])
    answer, errors = check_submission(FORM, "reject", "no", {"amount": "much", "x": 1})
    assert (answer, errors) == (Submission("reject", "no"), [])


def test_all_faults_of_an_answer_are_told_at_once() -> None:
    _, errors = check_submission(FORM, "x", "c" * (MAX_COMMENT + 1), {"y": 1, "note": "x"})
    assert [error.loc for error in errors] == [
        ("choice",), ("comment",), ("values", "y"), ("values", "amount"), ("values", "note"),
    ]  # fmt: skip
    _, errors = check_submission(FORM, "reject", " ", {})
    assert [(error.loc, error.msg) for error in errors] == [(("comment",), "is required")]
    silent = Form("t", comment=Comment.NONE)
    assert [error.loc for error in check_submission(silent, "approve", "x", {})[1]] == [("comment",)]
    asking = Form("t", comment=Comment.REQUIRED)
    assert [error.loc for error in check_submission(asking, "reject", "", {})[1]] == [("comment",)]


@pytest.mark.parametrize(
    ("texts", "values"),
    [
        ({"amount": " 12.50 ", "pieces": "+3"}, {"amount": 12.5, "pieces": 3}),
        ({"amount": "1e2", "is_new": "1"}, {"amount": 100.0, "is_new": True}),
        ({"amount": "7"}, {"amount": 7}),
        ({"amount": "1_000", "pieces": "1.5"}, {"amount": "1_000", "pieces": "1.5"}),
        ({"note": "a\r\nb", "reason": " "}, {"note": "a\nb"}),
        ({"unknown": "x"}, {}),
    ],
)
def test_texts_of_a_browser_become_values(texts: dict[str, str], values: dict[str, Any]) -> None:
    found = values_of_texts(FORM, texts)
    assert found == {"is_new": False, **values}
    for name, value in values.items():
        assert type(found[name]) is type(value)


def test_a_field_has_its_name_where_it_has_no_title() -> None:
    assert FormField("f", "string").label == "f"
