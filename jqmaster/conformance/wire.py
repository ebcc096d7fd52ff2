"""The wire format of the protocol: bodies as MessagePack or JSON, IDs and signatures."""

import base64
import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Mapping
from typing import Any, Final

import msgpack

MSGPACK: Final = "application/msgpack"
JSON: Final = "application/json"


def media_type(fields: Mapping[str, str], name: str = "content-type") -> str:
    """Return the type of a body, without parameters."""
    return fields.get(name, "").partition(";")[0].strip().lower()


def decode(body: bytes, content_type: str) -> Any:
    """Return the decoded body. Raises ValueError."""
    if content_type in (JSON, "application/problem+json"):
        return _from_json(json.loads(body))
    try:
        return msgpack.unpackb(body, timestamp=0, strict_map_key=False, object_pairs_hook=_map)
    except (msgpack.UnpackException, TypeError, ValueError) as exc:
        raise ValueError(f"not one MessagePack value: {exc}") from None


def _map(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    try:
        return dict(pairs)
    except TypeError:  # Python cannot hash this key, although other languages allow it
        return {repr(key): value for key, value in pairs}


def encode(value: Any, content_type: str) -> bytes:
    if content_type == JSON:
        return json.dumps(_to_json(value)).encode()
    packed: bytes = msgpack.packb(value)
    return packed


def _to_json(value: Any) -> Any:
    match value:
        case bytes():
            return {"$bin": base64.b64encode(value).decode()}
        case dict():
            return {key: _to_json(member) for key, member in value.items()}
        case list():
            return [_to_json(member) for member in value]
    return value


def _from_json(value: Any) -> Any:
    match value:
        case {"$bin": str(text)} if len(value) == 1:
            return base64.b64decode(text)
        case dict():
            return {key: _from_json(member) for key, member in value.items()}
        case list():
            return [_from_json(member) for member in value]
    return value


def new_id() -> str:
    """Return a new UUIDv7."""
    time_digits, variant = f"{time.time_ns() // 1_000_000:012x}", f"{8 + secrets.randbelow(4):x}"
    digits = f"{time_digits}7{secrets.token_hex(2)[:3]}{variant}{secrets.token_hex(8)[:15]}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def new_token() -> str:
    return secrets.token_hex(16)


def proof_of(secret: str, nonce: str) -> str:
    return hmac.new(secret.encode(), nonce.encode(), hashlib.sha256).hexdigest()


def signature(
    secret: str, *, method: str, path: str, worker_id: str, timestamp: str, nonce: str, body: bytes
) -> str:
    """Return the value of X-JQ-Signature."""
    text = "\n".join((method, path, worker_id, timestamp, nonce, hashlib.sha256(body).hexdigest()))
    return "v1=" + hmac.new(secret.encode(), text.encode(), hashlib.sha256).hexdigest()
