"""Challenges that people answer over HTTP: as a page for browsers, or as data."""

import hmac
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import parse_qsl

from jqmaster.api.challenges import page, views
from jqmaster.api.challenges.page import FIELD_PREFIX, RejectedInput, Visitor
from jqmaster.api.challenges.page_texts import LANGUAGES, language_of
from jqmaster.api.challenges.schemas import FormAnswerRequest
from jqmaster.api.encoding.envelopes import read_map
from jqmaster.api.encoding.json_bridge import json_to_msgpack
from jqmaster.api.encoding.negotiation import Encoding, request_encoding
from jqmaster.api.http.auth import check_csrf
from jqmaster.api.http.endpoint import Call, Reply, check
from jqmaster.api.http.problems import status_of
from jqmaster.api.http.proxy_login import PREFIX, check_proxy_csrf
from jqmaster.domain.challenges.challenge import Callback, Challenge
from jqmaster.domain.challenges.challenge_form import Audience, values_of_texts
from jqmaster.errors import (
    ChallengeOverError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    JqmasterError,
    NotFoundError,
    RateLimitedError,
    TooLargeError,
    UnauthorizedError,
    UnparsableError,
)
from jqmaster.service.challenges.forms import check_person

FORM_TYPE: Final = "application/x-www-form-urlencoded"
MAX_ANSWER_BYTES: Final = 128 * 1024
_MAX_CONTROLS: Final = 64


@dataclass(frozen=True, slots=True)
class SubmittedAnswer:
    """An answer as it was received. `csrf_token`: the CSRF token in the form. None: the answer did not come from
    a form."""

    choice: str
    comment: str
    values: Mapping[str, Any]
    csrf_token: str | None = None
    texts: Mapping[str, str] | None = None


async def show(call: Call) -> Reply:
    if not _wants_page(call):
        found = await call.services.challenge_forms.find(call.path["request_id"], call.address)
        check_person(found, call.principal)
        return Reply(200, views.form_view(found))
    try:
        found = await call.services.challenge_forms.find(call.path["request_id"], call.address)
        check_person(found, call.principal)
    except JqmasterError as error:
        return _refusal(call, error)
    return await _state_of(call, found)


async def answer(call: Call, sent: Callback) -> Reply:
    """Accept an answer that a person sent to the address of a challenge."""
    is_form = sent.content_type.partition(";")[0].strip().lower() == FORM_TYPE
    if not (is_form and _wants_page(call)):
        found = await call.services.challenge_forms.find(call.path["request_id"], call.address)
        is_new = await _take(call, found, _answer_of(call, found, sent))
        return Reply(202 if is_new else 200, {"repeated": not is_new})
    try:
        found = await call.services.challenge_forms.find(call.path["request_id"], call.address)
        check_person(found, call.principal)
        given = _answer_of(call, found, sent)
    except JqmasterError as error:
        return _refusal(call, error)
    try:
        await _take(call, found, given)
    except InvalidError as error:
        assert found.form is not None
        filled = RejectedInput(given.texts or {}, error.errors)
        visitor = replace(_visitor(call, found), now_ms=await call.services.store_time_ms())
        return _page(status_of(error)[0], page.form_page(found, found.form, visitor, filled))
    except (ConflictError, ChallengeOverError) as error:
        return await _too_late(call, error)
    except JqmasterError as error:
        return _refusal(call, error)
    # Redirect, so that reloading the page shows the recorded answer and does not send it again.
    return Reply(
        303,
        b"",
        ((b"location", (_address(call) + ("&" if "?" in _address(call) else "?") + "done=1").encode()),),
        page.MEDIA_TYPE,
        page.SECURITY_HEADERS,
    )


async def answer_shown(call: Call, challenge: Challenge, sent: Callback) -> Reply:
    """Accept an operator's answer."""
    given = _answer_of(call, challenge, sent)
    is_new = await call.services.challenge_forms.answer(
        challenge,
        choice=given.choice,
        comment=given.comment,
        values=given.values,
        person=call.known,
        address=call.address,
    )
    return Reply(202 if is_new else 200, {"repeated": not is_new})


async def _take(call: Call, challenge: Challenge, given: SubmittedAnswer) -> bool:
    check_person(challenge, call.principal)
    if challenge.audience is Audience.USERS:
        _check_csrf(call, given)
    return await call.services.challenge_forms.answer(
        challenge,
        choice=given.choice,
        comment=given.comment,
        values=given.values,
        person=call.principal,
        address=call.address,
    )


def _check_csrf(call: Call, given: SubmittedAnswer) -> None:
    """Refuse an answer that may come from a page of another site, sent by the browser of a logged-in person."""
    is_by_proxy = call.principal is not None and call.principal.name.startswith(PREFIX)
    if given.csrf_token is None:
        if call.session is not None:
            check_csrf("POST", call.fields, call.session)
        elif is_by_proxy:
            check_proxy_csrf(call.fields, b"x-csrf-token")
    elif call.session is not None:
        if not hmac.compare_digest(given.csrf_token.encode(), call.session.csrf_token.encode()):
            raise ForbiddenError("the form belongs to another login", code="csrf")
    elif (
        is_by_proxy and b"origin" not in call.fields and call.fields.get(b"sec-fetch-site") != b"same-origin"
    ):
        # Refuse a form without an origin, because every browser sends an origin. An earlier check has verified an
        # origin that is present.
        raise ForbiddenError("the browser did not send the origin of the form", code="csrf")


def _answer_of(call: Call, challenge: Challenge, sent: Callback) -> SubmittedAnswer:
    if len(sent.body) > MAX_ANSWER_BYTES:
        raise TooLargeError(f"the answer is larger than {MAX_ANSWER_BYTES} bytes", code="body_too_large")
    kind = sent.content_type.partition(";")[0].strip().lower()
    if kind == FORM_TYPE:
        return _answer_of_form(challenge, sent.body)
    if not sent.body:
        raise UnparsableError("the body is empty", code="empty_body")
    is_json = request_encoding({b"content-type": sent.content_type.encode("latin-1")}) is Encoding.JSON
    body = json_to_msgpack(sent.body) if is_json else sent.body
    request = check(FormAnswerRequest, read_map(body, limits=call.limits.scan))
    return SubmittedAnswer(request.choice, request.comment, request.values)


def _answer_of_form(challenge: Challenge, body: bytes) -> SubmittedAnswer:
    try:
        texts = dict(
            parse_qsl(
                body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=_MAX_CONTROLS
            )
        )
    except ValueError:
        raise UnparsableError("the form cannot be parsed") from None
    values = {
        name.removeprefix(FIELD_PREFIX): text for name, text in texts.items() if name.startswith(FIELD_PREFIX)
    }
    assert challenge.form is not None
    return SubmittedAnswer(
        texts.get("choice", ""),
        texts.get("comment", "").replace("\r\n", "\n"),
        values_of_texts(challenge.form, values),
        texts.get("csrf", ""),
        texts,
    )


# --- pages


async def _state_of(
    call: Call, challenge: Challenge, *, is_other: bool = False, status: int | None = None
) -> Reply:
    """Return the page for the challenge's current state."""
    form, language = challenge.form, _language(call)
    assert form is not None
    visitor = _visitor(call, challenge)
    is_by_visitor = bool(visitor.name) and any(one.by == visitor.name for one in challenge.answers)
    if challenge.is_open and not (challenge.audience is Audience.USERS and is_by_visitor):
        visitor = replace(visitor, now_ms=await call.services.store_time_ms())
        return _page(status or 200, page.form_page(challenge, form, visitor))
    if challenge.is_open or challenge.received >= challenge.expect:
        is_own = not is_other and dict(_query(call)).get("done") == "1"
        return _page(
            status or 200, page.answered_page(challenge, form, language, is_own=is_own, is_other=is_other)
        )
    return _page(status or status_of(ChallengeOverError(""))[0], page.over_page(challenge, form, language))


async def _too_late(call: Call, error: JqmasterError) -> Reply:
    """Return the page of a challenge that was answered or ended while the person filled in the form."""
    try:
        found = await call.services.challenge_forms.find(call.path["request_id"], call.address)
    except JqmasterError as gone:
        return _refusal(call, gone)
    is_other = isinstance(error, ConflictError)
    return await _state_of(call, found, is_other=is_other, status=status_of(error)[0])


def _refusal(call: Call, error: JqmasterError) -> Reply:
    language, status = _language(call), status_of(error)[0]
    if isinstance(error, UnauthorizedError):
        if call.fields.get(b"sec-fetch-site") == b"cross-site":
            return _page(200, page.reload_page(language, _address(call)))
        login = f"../#/login?then=callbacks/{call.path['request_id']}"
        return _page(status, page.plain_page("login", language, link=("login.go", login)))
    if isinstance(error, ForbiddenError):
        key = "stale" if error.code == "csrf" else "forbidden"
        return _page(status, page.plain_page(key, language, name=call.who))
    if isinstance(error, NotFoundError):
        return _page(status, page.plain_page("no_form" if error.code == "no_form" else "unknown", language))
    if isinstance(error, RateLimitedError):
        return _page(status, page.plain_page("slow", language), retry_after_s=error.retry_after_s)
    if isinstance(error, UnparsableError | TooLargeError):
        return _page(status, page.plain_page("stale", language))
    return _page(status, page.plain_page("away", language), retry_after_s=error.retry_after_s)


def _page(status: int, content: bytes, *, retry_after_s: float | None = None) -> Reply:
    headers: tuple[tuple[bytes, bytes], ...] = ()
    if retry_after_s is not None:
        headers = ((b"retry-after", str(max(1, round(retry_after_s))).encode()),)
    return Reply(status, content, headers, page.MEDIA_TYPE, page.SECURITY_HEADERS)


def _visitor(call: Call, challenge: Challenge) -> Visitor:
    token = call.session.csrf_token if call.session and challenge.audience is Audience.USERS else ""
    return Visitor(_language(call), call.who, token)


def _wants_page(call: Call) -> bool:
    return b"text/html" in call.fields.get(b"accept", b"").lower()


def _query(call: Call) -> list[tuple[str, str]]:
    """Return the query, and ignore unknown parameters: programs such as mail clients may add them."""
    try:
        return parse_qsl(call.query_string[:2048].decode("ascii"), max_num_fields=32)
    except ValueError:
        return []


def _language(call: Call) -> str:
    accepted = call.fields.get(b"accept-language", b"").decode("latin-1")
    return language_of(accepted, dict(_query(call)).get("lang"))


def _address(call: Call) -> str:
    """Return the address of this page, relative to the page itself, because a proxy may serve it below a path."""
    asked = dict(_query(call)).get("lang")
    return call.path["request_id"] + (f"?lang={asked}" if asked in LANGUAGES else "")
