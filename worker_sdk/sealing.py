"""Seal arguments: encrypt them where jobs are pushed, and open them where jobs run.

AES-256-GCM. The nonce of a value is derived from the key, the job that the value belongs to, and the value itself (a
synthetic nonce, as in SIV). So the same job pushed again has the same bytes, and repeating a push stays safe.
"""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

from worker_sdk.errors import SealError
from worker_sdk.wire import decode, encode

What = Literal["argument", "result", "error", "part", "checkpoint"]

# The two members of a sealed value. The first one tells people which key was used.
SEALED_WITH: Final = "sealed_with"
SEALED: Final = "sealed"
# The prefix of the tag that each sealed job has, so that masters can list sealed jobs by key.
TAG_PREFIX: Final = "sealed:"

_KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12
_KEY_ID: Final = re.compile(r"[A-Za-z0-9_.-]{1,40}")
_VERSION: Final = 1
_OF_JOB, _OF_NAME = 0, 1
# The number of the MessagePack extension for a sealed checkpoint.
_EXTENSION: Final = 84
_ROOM_FOR_SEAL: Final = 100


class Seal:
    """Seal arguments, results, checkpoints, partial results and errors of the jobs of `Tasks(seal=…)`. Install the
    extra `jqmaster-sdk[seal]`.

    * `keys`: the keys by ID. A key is 32 bytes, or their base64 text. The first key seals; every key opens. An ID has
      up to 40 letters, digits and `_ . -`, and is not secret.
    * `clear`: paths in the argument, such as `"tenant"` or `"order.region"`. Masters also get a readable copy of the
      values at these paths, for constraints. The handler gets the values that were sealed.

    Raise ValueError for an invalid key or path, and ImportError without the package cryptography. For example:

        seal = Seal(keys={"2026b": Seal.new_key(), "2026a": Seal.new_key()}, clear=["tenant"])
        sealed_tasks = Tasks(seal=seal)
    """

    def __init__(self, *, keys: Mapping[str, bytes | str], clear: Iterable[str] = ()) -> None:
        try:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        except ImportError as exc:
            raise ImportError("Seal needs the package cryptography: install jqmaster-sdk[seal]") from exc
        if not keys:
            raise ValueError("a Seal needs at least one key")
        secrets = {key_id: _key_of(key_id, key) for key_id, key in keys.items()}
        self._ciphers = {key_id: AESGCM(key) for key_id, key in secrets.items()}
        self._nonce_keys = {
            key_id: hmac.digest(key, b"jqmaster: nonces of sealed values", "sha256")
            for key_id, key in secrets.items()
        }
        self.key_ids = tuple(secrets)
        if isinstance(clear, str):
            raise TypeError("`clear` must be a list of paths, and not a single text")
        self.clear = tuple(clear)
        for path in self.clear:
            if not path or not all(path.split(".")) or path.split(".")[0] in (SEALED_WITH, SEALED):
                raise ValueError(f"{path!r} is not a valid path of a value that stays readable")

    def __repr__(self) -> str:
        return f"<Seal with {', '.join(self.key_ids)}>"

    @staticmethod
    def new_key() -> str:
        """Return a new random key, as text.

        For example:

            print(Seal.new_key())
        """
        import secrets

        return base64.b64encode(secrets.token_bytes(_KEY_BYTES)).decode()

    def opened(self, value: Any, what: What, job_id: str) -> Any:
        """Return the original value of a sealed value of a job. A value that is not sealed is returned unchanged. Raise
        SealError if the value cannot be opened.

        * `value`: a result, or another value, as `Pusher.result` or the API of a master returns it.
        * `what`: the kind of value: `"result"`, `"argument"`, `"error"` or `"part"`.
        * `job_id`: the ID of the job.

        For example:

            print(seal.opened(320, "result", job_id))
        """
        if not is_sealed(value):
            return value
        return decode(self._open(value[SEALED_WITH], value[SEALED], what, job_id, ""))

    # --- for the rest of the package

    @property
    def tag(self) -> str:
        """The tag of jobs that the current key seals."""
        return TAG_PREFIX + self.key_ids[0]

    def sealed(self, value: Any, what: What, job_id: str) -> dict[str, Any]:
        """Return the sealed form of a value. It can be opened only for the job with this ID."""
        return self._members(encode(value), what, _OF_JOB, job_id)

    def seal_job(self, job: dict[str, Any]) -> None:
        """Seal the argument of a job, in place, and tag it."""
        unique, argument = job.get("unique") or {}, job["argument"]
        # Seal the argument for the job's name and not for its ID, because the job may get the ID of a job that it
        # replaces.
        if "debounce" in job or unique.get("on_conflict") == "replace":
            job["argument"] = self.sealed_for_name(argument, job["name"])
        else:
            job["argument"] = self._with_clear(argument, self.sealed(argument, "argument", job["id"]))
        tags = [tag for tag in job.get("tags") or () if not tag.startswith(TAG_PREFIX)]
        job["tags"] = [*tags, self.tag]

    def sealed_for_name(self, argument: Any, name: str) -> dict[str, Any]:
        """Return the sealed form of an argument. It can be opened for any job with this name, because a master may
        choose the ID of the job."""
        return self._with_clear(argument, self._members(encode(argument), "argument", _OF_NAME, name))

    def opened_argument(self, value: Any, job_id: str, name: str) -> Any:
        """Return the argument of a job. Raise SealError if it cannot be opened."""
        if not is_sealed(value):
            return value
        return decode(self._open(value[SEALED_WITH], value[SEALED], "argument", job_id, name))

    def sealed_checkpoint(self, checkpoint: bytes, job_id: str) -> bytes:
        """Return the sealed form of an encoded checkpoint, for a master to store."""
        from msgpack import ExtType

        members = self._members(checkpoint, "checkpoint", _OF_JOB, job_id)
        return encode(ExtType(_EXTENSION, encode([members[SEALED_WITH], members[SEALED]])))

    def opened_checkpoint(self, checkpoint: bytes | None, job_id: str) -> bytes | None:
        """Return the encoded checkpoint that the handler saved. Raise SealError if it cannot be opened."""
        from msgpack import ExtType

        if not checkpoint:
            return checkpoint
        found = decode(checkpoint)
        if type(found) is not ExtType or found.code != _EXTENSION:
            return checkpoint
        key_id, data = decode(found.data)
        return self._open(key_id, data, "checkpoint", job_id, "")

    @property
    def checkpoint_bytes(self) -> int:
        """Maximum number of bytes that the seal adds to a checkpoint."""
        return _ROOM_FOR_SEAL

    def sealed_failure(self, fields: dict[str, Any], job_id: str) -> dict[str, Any]:
        """Return the report of a failed attempt without the texts of its exception. Only its type stays readable. If
        the job could not be opened, the message stays readable, too, because it names the missing key.
        """
        error, message = fields.get("error"), fields.get("message")
        if (
            "error" not in fields
            or (message is None and error is None)
            or fields.get("reason") == "undecodable"
        ):
            return fields
        kind = error.get("type") if isinstance(error, dict) else None
        covered = self.sealed({"error": error, "message": message}, "error", job_id)
        return {
            **fields,
            "error": {"type": kind, **covered} if kind else covered,
            "message": f"{kind or 'a message'} (sealed with {self.key_ids[0]})",
        }

    def opened_failure(self, error: Any, message: str, job_id: str) -> tuple[Any, str]:
        """Return the error and the message of a failed attempt. Raise SealError if they cannot be opened."""
        if not is_sealed(error):
            return error, message
        found = self.opened(error, "error", job_id)
        return found["error"], found["message"]

    # --- the cipher

    def _members(self, plain: bytes, what: What, bound: int, subject: str) -> dict[str, Any]:
        key_id = self.key_ids[0]
        named = _associated(key_id, what, bound, subject)
        nonce = hmac.digest(self._nonce_keys[key_id], _joined(named, plain), "sha256")[:_NONCE_BYTES]
        data = self._ciphers[key_id].encrypt(nonce, plain, named)
        return {SEALED_WITH: key_id, SEALED: bytes((_VERSION, bound)) + nonce + data}

    def _open(self, key_id: str, data: bytes, what: What, job_id: str, name: str) -> bytes:
        from cryptography.exceptions import InvalidTag

        cipher = self._ciphers.get(key_id)
        if cipher is None:
            known = ", ".join(self.key_ids)
            raise SealError(
                f"the {what} is sealed with the key {key_id}, but this Seal has only {known}: add the key {key_id}",
                key_id,
            )
        version, bound, body = data[:1], data[1:2], data[2:]
        if version != bytes((_VERSION,)) or bound not in (b"\x00", b"\x01"):
            raise SealError(f"the {what} is sealed in a form that this release does not know", key_id)
        subject = job_id if bound == b"\x00" else name
        try:
            return cipher.decrypt(
                body[:_NONCE_BYTES], body[_NONCE_BYTES:], _associated(key_id, what, bound[0], subject)
            )
        except (InvalidTag, ValueError):
            raise SealError(
                f"the {what} cannot be opened with the key {key_id}: another key has this ID, the value was "
                "changed, or it belongs to another job",
                key_id,
            ) from None

    def _with_clear(self, argument: Any, members: dict[str, Any]) -> dict[str, Any]:
        readable: dict[str, Any] = {}
        for path in self.clear:
            *steps, last = path.split(".")
            found: Any = argument
            for step in steps:
                found = found.get(step) if isinstance(found, dict) else None
            if isinstance(found, dict) and last in found:
                place = readable
                for step in steps:
                    place = place.setdefault(step, {})
                place[last] = found[last]
        return {**members, **readable}


def is_sealed(value: Any) -> bool:
    """Return whether a value is sealed."""
    return (
        isinstance(value, dict)
        and isinstance(value.get(SEALED_WITH), str)
        and isinstance(value.get(SEALED), bytes)
    )


def _key_of(key_id: str, key: bytes | str) -> bytes:
    if not isinstance(key_id, str) or not _KEY_ID.fullmatch(key_id):
        raise ValueError(f"{key_id!r} is not a valid ID of a key: use up to 40 letters, digits and _ . -")
    if isinstance(key, str):
        try:
            key = base64.b64decode(key, validate=True)
        except binascii.Error:
            raise ValueError(f"the key {key_id} is not base64 text") from None
    if len(key) != _KEY_BYTES:
        raise ValueError(
            f"the key {key_id} has {len(key)} bytes, but {_KEY_BYTES} are needed: see Seal.new_key()"
        )
    return key


def _associated(key_id: str, what: str, bound: int, subject: str) -> bytes:
    """Return the associated data of a sealed value. It binds the value to its job, so that it cannot be opened as a
    value of another job."""
    return b"\0".join(
        (b"jqmaster-seal-1", key_id.encode(), what.encode(), b"name" if bound else b"job", subject.encode())
    )


def _joined(named: bytes, plain: bytes) -> bytes:
    return hashlib.sha256(named).digest() + plain
