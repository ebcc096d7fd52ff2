"""Encryption of a backup with a passphrase: scrypt, AES-256-GCM for each frame, HMAC-SHA256 for the manifest."""

import hashlib
import hmac
import secrets
import struct
from dataclasses import asdict, dataclass
from typing import Any, Final

from jqmaster.errors import DamagedError

_SALT_BYTES: Final = 16
_KEY_BYTES: Final = 32
_MAX_KDF_MEMORY: Final = 512 << 20
CIPHER: Final = "AES-256-GCM"


@dataclass(frozen=True, slots=True)
class KeyDerivation:
    """The parameters for deriving the keys from the passphrase. The manifest contains them in plain text."""

    salt: str
    n: int = 1 << 15
    r: int = 8
    p: int = 1
    kdf: str = "scrypt"
    cipher: str = CIPHER

    @classmethod
    def fresh(cls) -> "KeyDerivation":
        return cls(secrets.token_hex(_SALT_BYTES))

    @classmethod
    def of(cls, document: Any) -> "KeyDerivation":
        """Return the parameters in a manifest. Raises DamagedError if this version cannot use them."""
        try:
            found = cls(**document)
            is_known = (found.kdf, found.cipher) == ("scrypt", CIPHER)
            if not is_known or not (0 < found.n * found.r * 128 * max(found.p, 1) <= _MAX_KDF_MEMORY):
                raise ValueError("unknown")
            bytes.fromhex(found.salt)
        except (TypeError, ValueError) as error:
            raise DamagedError("the manifest names an encryption that this version does not know") from error
        return found

    def document(self) -> dict[str, Any]:
        return asdict(self)


class BackupCipher:
    """The keys of one backup. The nonce of a frame is its position, so no nonce is used twice."""

    def __init__(self, passphrase: str, derivation: KeyDerivation) -> None:
        # Imported here: only encrypted backups need it.
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        d = derivation
        keys = hashlib.scrypt(
            passphrase.encode("utf-8", "surrogateescape"), salt=bytes.fromhex(d.salt), n=d.n, r=d.r, p=d.p,
            maxmem=2 * _MAX_KDF_MEMORY, dklen=2 * _KEY_BYTES,
        )  # fmt: skip
        self._aead, self._mac_key = AESGCM(keys[:_KEY_BYTES]), keys[_KEY_BYTES:]

    def encrypt(self, file: int, frame: int, plain: bytes) -> bytes:
        place = _place(file, frame)
        return self._aead.encrypt(place, plain, place)

    def decrypt(self, file: int, frame: int, encrypted: bytes) -> bytes:
        """Return the plain text of a frame. Raises DamagedError."""
        from cryptography.exceptions import InvalidTag

        place = _place(file, frame)
        try:
            return self._aead.decrypt(place, encrypted, place)
        except InvalidTag as error:
            raise DamagedError("a part of the backup cannot be decrypted: it was changed") from error

    def mac(self, text: bytes) -> str:
        return hmac.new(self._mac_key, text, hashlib.sha256).hexdigest()


def _place(file: int, frame: int) -> bytes:
    return struct.pack(">IQ", file, frame)
