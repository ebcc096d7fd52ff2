"""Challenges over HTTP. Workers open them, outside systems or people answer them."""

import re
from typing import Final
from urllib.parse import urlsplit

import msgpack

from jqmaster.api.challenges import people, views
from jqmaster.api.challenges.schemas import CallbackProgressRequest, OpenChallengeRequest
from jqmaster.api.encoding.negotiation import Encoding
from jqmaster.api.http.auth import is_loopback
from jqmaster.api.http.endpoint import Call, Reply
from jqmaster.api.http.query import query_error, whole_number
from jqmaster.api.http.searches import search
from jqmaster.domain.challenges.challenge import MAX_META_BYTES, Callback, ChallengeState
from jqmaster.domain.challenges.challenge_form import MAX_FORM_BYTES, Audience
from jqmaster.domain.ids import is_id
from jqmaster.errors import (
    ConflictError,
    FieldError,
    InvalidError,
    TooLargeError,
    UnparsableError,
    invalid,
)
from jqmaster.service.challenges.challenges import NewChallenge
from jqmaster.service.challenges.reader import Place
from jqmaster.service.jobs.reader import unknown_job
from jqmaster.store.identity.audit import encode_entry

META: Final = frozenset({"meta"})
MAX_PAGE: Final = 500
MAX_TYPE_CHARS: Final = 200
_CURSOR: Final = re.compile(r"([0-9]{1,15})\.([0-9a-f-]{36})")


async def open_challenge(call: Call) -> Reply:
    request = await call.read(OpenChallengeRequest, META)
    await call.services.owners.check(call.path["worker_id"], call.known)
    if request.meta is not None and len(request.meta) > MAX_META_BYTES:
        raise TooLargeError(
            f"meta has more than {MAX_META_BYTES} bytes",
            code="meta_too_large",
            errors=[FieldError(("meta",), f"at most {MAX_META_BYTES} bytes")],
        )
    _check_form(request)
    base = _base(call)
    opened = await call.services.challenges.open(
        call.path["worker_id"],
        NewChallenge(
            request.job_id,
            request.token,
            max(1, round(request.timeout_s * 1000)),
            request.expect,
            request.meta,
            request.signature.to_signature() if request.signature else None,
            request.form.to_form() if request.form else None,
            Audience(request.audience),
            None if request.remind_after_s is None else round(request.remind_after_s * 1000),
            request.nonce,
        ),
    )
    return Reply(201, {"request_id": opened.text, "callback_url": f"{base}/callbacks/{opened.text}"})


async def call_back(call: Call) -> Reply:
    callback = await _callback(call)
    is_new = await call.services.challenges.call_back(
        call.path["request_id"],
        callback,
        key=_key(call),
        headers={name.decode("latin-1"): value.decode("latin-1") for name, value in call.fields.items()},
        address=call.address,
    )
    if is_new is None:
        return await people.answer(call, callback)
    return Reply(202 if is_new else 200, {"repeated": not is_new})


async def tell_progress(call: Call) -> Reply:
    request = await call.read(CallbackProgressRequest)
    await call.services.challenges.report_progress(
        call.path["request_id"], request.fraction, request.message, address=call.address
    )
    return Reply(204)


@search
async def list_challenges(call: Call) -> Reply:
    query = call.query("state", "name", "limit", "cursor")
    limit = whole_number(query, "limit", default=100, least=1, most=MAX_PAGE)
    state = _state(query.get("state"))
    name = query.get("name")
    page = await call.services.challenge_reader.page(
        _place(query.get("cursor")),
        limit,
        state=state,
        is_meant=lambda job: name is None or job.name == name,
    )
    return Reply(
        200,
        {
            "challenges": [views.challenge_view(one, call.content) for one in page.challenges],
            "next_cursor": None if page.next_position is None else "{}.{}".format(*page.next_position),
        },
    )


async def of_job(call: Call) -> Reply:
    call.query()
    found = await call.services.challenge_reader.of_job(call.path["job_id"])
    shown = [views.challenge_view(one, call.content) for one in found]
    return Reply(200, {"challenges": shown, "next_cursor": None})


async def answer(call: Call) -> Reply:
    job_id, shown = call.path["job_id"], call.path["request"]
    if not is_id(job_id):
        raise unknown_job(job_id)
    callback = await _callback(call)
    if (asked := await call.services.challenge_forms.find_shown(job_id, shown)) is not None:
        return await people.answer_shown(call, asked, callback)
    is_new = await call.services.challenge_reader.answer(job_id, shown, callback)
    if is_new:
        entry = encode_entry(
            who=call.who, action="challenge.answer", target=job_id, before=None, after={"request": shown[:64]}
        )
        await call.services.audit_writer.write(entry)
    return Reply(202 if is_new else 200, {"repeated": not is_new})


def _check_form(request: OpenChallengeRequest) -> None:
    """Raise InvalidError if fields of the request contradict its form, or require a form although the request has
    none."""
    if request.form is None:
        if request.audience != "link":
            raise invalid([FieldError(("audience",), "requires a form")])
        if request.remind_after_s is not None:
            raise invalid([FieldError(("remind_after_s",), "requires a form")])
        return
    if request.signature is not None:
        raise invalid(
            [FieldError(("signature",), "cannot be combined with a form: people do not sign their answers")]
        )
    if request.expect > 1 and request.audience == "link":
        raise invalid(
            [FieldError(("expect",), "must be 1 unless people log in to answer: set audience to users")]
        )
    if len(msgpack.packb(request.form.model_dump())) > MAX_FORM_BYTES:
        raise TooLargeError(
            f"form has more than {MAX_FORM_BYTES} bytes",
            code="form_too_large",
            errors=[FieldError(("form",), f"at most {MAX_FORM_BYTES} bytes")],
        )


def _base(call: Call) -> str:
    """Return the address at which outside systems reach the namespace. Raise ConflictError if this address is
    unknown."""
    settings = call.services.settings
    if settings.public_url is not None:
        return settings.public_url.rstrip("/") + call.services.prefix
    if not is_loopback(settings.host):
        raise ConflictError(
            "the master does not know the address at which outside systems reach it; set public_url",
            code="no_public_url",
        )
    host = call.fields.get(b"host", b"").decode("latin-1")
    if not is_loopback(urlsplit(f"//{host}").hostname or ""):
        host = f"{settings.host}:{settings.port}"
    return f"{'https' if settings.tls_certfile else 'http'}://{host}{call.services.prefix}"


async def _callback(call: Call) -> Callback:
    """Return the body unchanged, and its content type."""
    content_type = call.fields.get(b"content-type", b"").decode("latin-1")
    if len(content_type) > MAX_TYPE_CHARS:
        raise InvalidError(f"Content-Type must have at most {MAX_TYPE_CHARS} characters")
    # Declare the body as MessagePack so that no code converts it. Only the handler of the job knows its type.
    call.fields = {**call.fields, b"content-type": Encoding.MSGPACK.value.encode()}
    try:
        body = await call.body(call.services.settings.max_argument_bytes)
    except UnparsableError as error:
        if error.code != "empty_body":
            raise
        body = b""
    return Callback(content_type, body)


def _key(call: Call) -> str:
    key = call.fields.get(b"idempotency-key", b"")
    if len(key) > 255:
        raise InvalidError("Idempotency-Key must have at most 255 characters")
    return key.decode("latin-1")


def _state(text: str | None) -> ChallengeState | None:
    if text is None:
        return None
    try:
        return ChallengeState(text)
    except ValueError:
        raise query_error("state", f"one of {', '.join(ChallengeState)}") from None


def _place(cursor: str | None) -> Place | None:
    if cursor is None:
        return None
    match = _CURSOR.fullmatch(cursor)
    if match is None:
        raise query_error("cursor", "the next_cursor of the previous page")
    return int(match[1]), match[2]
