import hashlib
import hmac
import re
import time

import pytest

from worker_sdk.transport.signature import signed_headers


@pytest.mark.req("D18")
def test_the_signature_is_the_formula_of_the_contract() -> None:
    headers = signed_headers(
        secret="sécret" * 6, method="POST", path="/jq/jobs", worker_id="w-1", body=b"body"
    )
    timestamp, nonce = headers["X-JQ-Timestamp"], headers["X-JQ-Nonce"]
    message = f"POST\n/jq/jobs\nw-1\n{timestamp}\n{nonce}\n{hashlib.sha256(b'body').hexdigest()}"
    expected = hmac.new(("sécret" * 6).encode(), message.encode(), hashlib.sha256).hexdigest()
    assert headers == {
        "X-JQ-Worker": "w-1", "X-JQ-Timestamp": timestamp, "X-JQ-Nonce": nonce, "X-JQ-Signature": f"v1={expected}",
    }  # fmt: skip
    assert abs(int(timestamp) - time.time() * 1000) < 60_000


def test_no_two_calls_share_a_nonce_and_none_can_be_taken_for_a_challenge() -> None:
    made = [
        signed_headers(secret="s" * 32, method="POST", path="/", worker_id="w", body=b"") for _ in range(1000)
    ]
    nonces = {headers["X-JQ-Nonce"] for headers in made}
    assert len(nonces) == 1000
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{22}", nonce) for nonce in nonces)


@pytest.mark.parametrize("field", ["secret", "method", "path", "worker_id", "body"])
def test_every_part_is_signed(field: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("secrets.token_urlsafe", lambda n: "nonce")
    monkeypatch.setattr("time.time_ns", lambda: 1)
    parts = {"secret": "s" * 32, "method": "POST", "path": "/", "worker_id": "w", "body": b"x"}
    changed = parts | {field: b"y" if field == "body" else "other"}
    assert signed_headers(**parts)["X-JQ-Signature"] != signed_headers(**changed)["X-JQ-Signature"]  # type: ignore[arg-type]
