"""The right to see content, and redaction of keys, matchers and texts."""

from typing import Any

import msgpack
import pytest

from jqmaster.domain.content.content import HIDDEN, ContentAccess, content_access, full_access, no_access
from jqmaster.domain.content.redact import REDACTED, Redactor
from jqmaster.domain.identity.access import Principal, Scope, with_implied
from jqmaster.domain.jobs.error_type import error_type_of
from jqmaster.domain.matching.matcher import parse_matcher
from jqmaster.domain.matching.paths import parse_path
from jqmaster.errors import ForbiddenError

pytestmark = pytest.mark.rule("E6.1")


def access(*redact_paths: str, is_granted: bool = True) -> ContentAccess:
    return ContentAccess(is_granted, Redactor(redact_paths))


def of(*scopes: Scope, viewers_see_content: bool = False, **fields: Any) -> ContentAccess:
    principal = Principal("t", with_implied(scopes), **fields)
    return content_access(principal, viewers_see_content=viewers_see_content, redact_paths=())


def test_callers_that_may_read_and_act_or_push_see_content() -> None:
    assert of(Scope.OPERATE).is_granted
    assert of(Scope.ADMIN).is_granted
    assert of(Scope.READ, Scope.PUSH).is_granted
    assert of(Scope.READ, viewers_see_content=True).is_granted
    for scopes in (
        (Scope.READ,),
        (Scope.PUSH,),
        (Scope.WORK,),
        (Scope.WORK, Scope.PUSH),
        (Scope.READ, Scope.WORK),
    ):
        assert not of(*scopes).is_granted
    assert not content_access(None, viewers_see_content=True, redact_paths=()).is_granted


def test_a_pusher_of_some_names_sees_content_of_those() -> None:
    limited = of(Scope.READ, Scope.PUSH, allows_name=lambda name: name.startswith("mail."))
    assert limited.for_name("mail.send").is_granted
    assert not limited.for_name("pay").is_granted
    assert not limited.is_granted


@pytest.mark.parametrize(
    ("redacted", "path", "meets"),
    [
        ("argument.card.number", "argument.card.number", True),
        ("argument.card.number", "argument.card", True),
        ("argument.card.number", "argument", True),
        ("argument.card.number", "argument.card.number.x[0]", True),
        ("argument.card.number", "argument.card.name", False),
        ("argument.card.number", "argument.other", False),
        ("argument.items.*.pin", "argument.items[3].pin", True),
        ("argument.items.*.pin", "argument.items[3]", True),
        ("argument.items.*.pin", "argument.items[3].name", False),
        ("argument.items.0", "argument.items[0]", True),
        ("argument.items.0", "argument.items[1]", False),
        ("argument.**.pin", "argument.pin", True),
        ("argument.**.pin", "argument.a.b.pin", True),
        ("argument.**.pin", "argument.a.pin.c", True),
        ("argument.**.pin", "argument.a", False),
        ("argument.**.card.pin", "argument.a.card", True),
        ("headers.x-secret", 'headers["X-Secret"]', True),
        ("headers.*", "headers.anything", True),
        ("headers.x-secret", "headers.trace", False),
        ("headers.x-secret", "argument.x-secret", False),
        ("argument.name", "name", False),
    ],
)  # fmt: skip
def test_a_path_is_covered_by_redaction_above_and_below_it(redacted: str, path: str, meets: bool) -> None:
    assert access(redacted).cover_of(parse_path(path)) == (REDACTED if meets else None)


def test_maps_and_lists_are_covered_where_anything_may_stand_in_them() -> None:
    key = parse_path("argument.a")
    assert access("argument.**.pin").key_text(key, '{"pin":"1234"}') == REDACTED
    assert access("argument.**.pin").key_text(key, "plain") == "plain"
    assert access("argument.b").key_text(key, '{"pin":"1234"}') == '{"pin":"1234"}'


def test_without_the_right_keys_are_hidden_and_other_fields_are_not() -> None:
    viewer = access(is_granted=False)
    assert viewer.key_text(parse_path("argument.host"), "example.org") == HIDDEN
    assert viewer.key_text(parse_path("headers.tenant"), "acme") == HIDDEN
    assert viewer.key_text(parse_path("priority"), "7") == "7"
    assert viewer.key_text(None, "") == ""
    # A redacted value is marked as redacted: nobody else sees it either.
    assert access("argument.host", is_granted=False).key_text(parse_path("argument.host"), "x") == REDACTED


DOCUMENT = {
    "all": [
        {"field": "name", "op": "eq", "value": "mail"},
        {"any": [{"field": "argument.pin", "op": "in", "value": ["s1", "s2"]},
            {"not": {"field": "argument.pin", "op": "lt", "value": 7}}]},
        {"field": "argument.pin", "op": "exists", "value": False},
        {"field": "argument.open", "op": "glob", "value": "a*"},
    ]
}  # fmt: skip


def test_constants_of_matchers_are_covered_and_the_document_stays_one() -> None:
    shown = access("argument.pin").matcher(DOCUMENT)
    assert shown["all"][1]["any"][0]["value"] == [REDACTED]
    assert shown["all"][1]["any"][1]["not"]["value"] == REDACTED
    assert [shown["all"][n]["value"] for n in (0, 2, 3)] == ["mail", False, "a*"]
    assert parse_matcher(shown).document == shown
    assert access().matcher(DOCUMENT) == DOCUMENT
    assert access(is_granted=False).matcher(DOCUMENT)["all"][3]["value"] == HIDDEN


def test_a_matcher_is_refused_by_the_field_that_it_may_not_read() -> None:
    with pytest.raises(ForbiddenError) as caught:
        access("argument.pin").check_matcher(DOCUMENT, ("matcher",))
    assert caught.value.code == "content_redacted"
    assert caught.value.errors[0].loc == ("matcher", "all", 1, "any", 0, "field")
    with pytest.raises(ForbiddenError) as caught:
        access(is_granted=False).check_matcher(DOCUMENT, ("matcher",))
    assert caught.value.code == "content_hidden"
    access().check_matcher(DOCUMENT, ())
    access(is_granted=False).check_matcher({"field": "tags", "op": "eq", "value": "x"}, ())


def test_texts_of_errors_are_redacted_together_with_the_message_of_the_error() -> None:
    for path in ("error.message", "error.*", "error.**.message"):
        assert access(path).error_text_cover == REDACTED
    assert access("error.traceback", "error.sql").error_text_cover is None
    assert access(is_granted=False).error_text_cover == HIDDEN


def test_the_audit_log_is_covered_as_views_are() -> None:
    redacting = access("argument.pin", "error.message")
    whole = {"matcher": DOCUMENT, "key": "argument.pin", "overrides": [{"value": "s3", "paused": True}]}
    assert "s3" not in str(redacting.audited("constraint.put", whole))
    assert "s1" not in str(redacting.audited("constraint.delete", whole))
    assert redacting.audited("constraint.value", {"key": "argument.pin", "value": "s"}) == {
        "key": "argument.pin", "value": REDACTED,
    }  # fmt: skip
    assert redacting.audited("constraint.value", {"key": "argument.a", "value": "s"})["value"] == "s"  # type: ignore[index]
    # Earlier versions did not record the key.
    assert redacting.audited("constraint.value", {"value": "s"}) == {"value": REDACTED}
    assert access().audited("constraint.value", {"value": "s"}) == {"value": "s"}
    assert redacting.audited("jobs.retry", {"filter": {"text": "s"}}) == {"filter": {"text": REDACTED}}
    assert redacting.audited("settings.change", {"value": 1}) == {"value": 1}
    assert redacting.audited("constraint.put", None) is None


def described(name: str, message: str = "boom") -> bytes:
    return bytes(msgpack.packb({"type": name, "message": message, "traceback": "…"}))


def test_the_type_of_an_exception_is_told_only_where_it_is_certain() -> None:
    assert error_type_of(described("ValueError"), "ValueError: boom") == "ValueError"
    assert (
        error_type_of(described("requests.exceptions.HTTPError"), "HTTPError: 404")
        == "requests.exceptions.HTTPError"
    )
    assert error_type_of(described("app.f.<locals>.Odd"), "Odd: x") == "app.f.<locals>.Odd"
    for error, message in (
        (None, "ValueError: boom"),
        (msgpack.packb("ValueError"), "ValueError: boom"),
        (msgpack.packb({"type": "ValueError", "message": "boom"}), "ValueError: boom"),
        (described("ValueError"), "other text"),
        (described("ValueError"), None),
        (described("card 4111"), "card 4111: boom"),
        (described("A" * 300), "A" * 300 + ": x"),
        (b"\xc1", "ValueError: boom"),
    ):  # fmt: skip
        assert error_type_of(error, message) is None


def test_the_override_of_a_redacted_key_is_covered() -> None:
    assert access("argument.a").constraint({"key": "argument.a", "value": "s", "paused": True}) == {
        "key": "argument.a", "value": REDACTED, "paused": True,
    }  # fmt: skip
    assert access().constraint({"concurrency": 2}) == {"concurrency": 2}


def test_every_part_of_a_constraint_that_has_content_is_covered() -> None:
    matcher = {"field": "argument.pin", "op": "eq", "value": "s1"}
    covered = matcher | {"value": REDACTED}
    document = {
        "matcher": matcher,
        "key": "argument.pin",
        "overrides": [{"value": "s1", "paused": True}, {"match": matcher, "concurrency": 1}],
        "reserve": [{"matcher": matcher, "concurrency": 1}],
        "fair": {"weights": [{"value": "s1", "weight": 3}]},
    }
    assert access("argument.pin").constraint(document) == {
        "matcher": covered,
        "key": "argument.pin",
        "overrides": [{"value": REDACTED, "paused": True}, {"match": covered, "concurrency": 1}],
        "reserve": [{"matcher": covered, "concurrency": 1}],
        "fair": {"weights": [{"value": REDACTED, "weight": 3}]},
    }
    assert access("argument.other").constraint(document) == document


def test_a_filter_is_shown_without_what_tells_texts_of_errors_apart() -> None:
    document = {"text": "boom", "failure_group": "g1", "name": "mail"}
    assert access().filter(document) == document
    assert access(is_granted=False).filter(document) == {"text": HIDDEN, "name": "mail"}
    shown = access("argument.pin").filter({"matcher": DOCUMENT})
    assert shown["matcher"]["all"][1]["any"][0]["value"] == [REDACTED]


def test_looking_for_texts_of_errors_is_refused_as_showing_them_is() -> None:
    access().check_error_text(("text",))
    access().check_failure_group(("failure_group",))
    for one, code in (
        (access("error.message"), "content_redacted"),
        (access(is_granted=False), "content_hidden"),
    ):
        with pytest.raises(ForbiddenError) as caught:
            one.check_error_text(("text",))
        assert caught.value.code == code
        assert caught.value.errors[0].loc == ("text",)
    with pytest.raises(ForbiddenError, match="failure_group distinguishes texts of errors"):
        access(is_granted=False).check_failure_group(("failure_group",))


def test_access_that_depends_on_nobody_redacts_all_the_same() -> None:
    assert full_access(["argument.pin"]).cover_of(parse_path("argument.pin")) == REDACTED
    assert full_access([]).is_granted
    assert not no_access([]).is_granted
    assert no_access(["argument.pin"]).redactor.has("argument")
