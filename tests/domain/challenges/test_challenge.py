"""Challenges without a store: request IDs, signatures of callbacks, and what workers and metrics see of them."""

import base64
import hashlib
import hmac
from typing import Literal

import pytest

from jqmaster.domain.challenges.challenge import (
    DIGEST_BYTES,
    Callback,
    CallbackAnswer,
    CallbackSignature,
    ChallengeFigures,
    callback_fields,
    new_request_id,
    read_request_id,
)

BODY = b'{"id":7}'
SECRET = "a-shared-secret"
JOB_ID = "0198c3f4-5e6a-7b8c-9d0e-1f2a3b4c5d6e"


@pytest.mark.req("P2")
def test_a_request_id_is_found_by_its_job_and_cannot_be_guessed() -> None:
    request = new_request_id(JOB_ID)
    assert read_request_id(request.text) == request
    assert request.job_id == JOB_ID
    assert request.shown in request.text
    assert request.digest == hashlib.sha256(request.text.encode()).digest()[:DIGEST_BYTES]
    assert len({new_request_id(JOB_ID).text for _ in range(100)}) == 100
    for text in ("", "x" * 54, request.text[:-1], request.text + "A", "é" * 54, "*" * 54):
        other = read_request_id(text)
        assert other is None or other.digest != request.digest
    assert read_request_id("é" * 54) is None
    assert read_request_id("*" * 54) is None
    assert read_request_id(request.text[:-1]) is None


@pytest.mark.req("P2")
def test_a_call_with_the_same_nonce_gets_the_same_request_id_and_no_other_attempt_does() -> None:
    token, nonce = "a" * 32, "n" * 32
    request = new_request_id(JOB_ID, token, nonce)
    assert read_request_id(request.text) == request == new_request_id(JOB_ID, token, nonce)
    others = {new_request_id(JOB_ID, *given).text for given in (("b" * 32, nonce), (token, "m" * 32))}
    assert len(others | {request.text}) == 3
    assert nonce not in request.text


def signed(encoding: Literal["hex", "base64"], body: bytes = BODY, secret: str = SECRET) -> str:
    mac = hmac.new(secret.encode(), body, hashlib.sha256)
    return mac.hexdigest() if encoding == "hex" else base64.b64encode(mac.digest()).decode()


@pytest.mark.req("P2")
@pytest.mark.parametrize("encoding", ["hex", "base64"])
def test_a_callback_is_believed_if_the_secret_signed_its_body(encoding: Literal["hex", "base64"]) -> None:
    signature = CallbackSignature("X-Signature", SECRET, "sha256=", encoding)
    assert signature.is_valid(f"sha256={signed(encoding)}", BODY)
    assert signature.is_valid(f"sha256= {signed(encoding)} ", BODY)
    for refused in (
        signed(encoding),
        f"sha512={signed(encoding)}",
        "sha256=",
        f"sha256={signed(encoding)[:-1]}",
        f"sha256={signed(encoding, BODY + b' ')}",
        f"sha256={signed(encoding, secret='another')}",
        f"sha256={signed('base64' if encoding == 'hex' else 'hex')}",
        "sha256=é",
    ):
        assert not signature.is_valid(refused, BODY), refused


@pytest.mark.req("P2")
def test_only_digits_of_a_signature_may_have_either_case() -> None:
    assert CallbackSignature("X-Signature", SECRET).is_valid(signed("hex").upper(), BODY)
    text = signed("base64")
    assert text.swapcase() != text
    assert not CallbackSignature("X-Signature", SECRET, encoding="base64").is_valid(text.swapcase(), BODY)


@pytest.mark.req("P3")
def test_callbacks_are_told_apart_by_type_and_body() -> None:
    one = Callback("application/json", BODY, 5)
    assert one.digest == Callback("application/json", BODY, 6).digest
    assert (
        len({one.digest, Callback("text/plain", BODY).digest, Callback("application/json", b"").digest}) == 3
    )


@pytest.mark.req("P3")
def test_a_worker_gets_the_first_callback_and_all_where_there_are_several() -> None:
    callbacks = [Callback("text/plain", b"1", 10), Callback("text/html", b"2", 20)]
    first, second = [
        {"content_type": "text/plain", "body": b"1", "received_at_ms": 10},
        {"content_type": "text/html", "body": b"2", "received_at_ms": 20},
    ]
    assert callback_fields([]) == {"callback": None}
    assert callback_fields(callbacks[:1]) == {"callback": first}
    assert callback_fields(callbacks) == {"callback": first, "callbacks": [first, second]}


@pytest.mark.req("P2")
def test_figures_time_only_the_callbacks_that_were_taken() -> None:
    figures = ChallengeFigures()
    for answer, after_ms in (
        (CallbackAnswer.TAKEN, 1_500),
        (CallbackAnswer.REPEATED, 9_000),
        (CallbackAnswer.TAKEN, 500),
        (CallbackAnswer.UNKNOWN, 0),
    ):
        figures.received(answer, after_ms)
    assert figures.callbacks == {
        CallbackAnswer.TAKEN: 2,
        CallbackAnswer.REPEATED: 1,
        CallbackAnswer.UNKNOWN: 1,
    }
    assert (figures.waits.count, figures.waits.sum_ms, figures.waits.max_ms) == (2, 2_000, 1_500)
    assert (figures.opened, figures.expired) == (0, 0)
