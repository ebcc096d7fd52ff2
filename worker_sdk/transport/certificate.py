"""Read the end date of a certificate, without a library for certificates."""

import ssl
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

_BEGIN: Final = "-----BEGIN CERTIFICATE-----"
_END: Final = "-----END CERTIFICATE-----"
_SEQUENCE: Final = 0x30
_UTC_TIME: Final = 0x17
_VERSION: Final = 0xA0


def not_after_s(file: Path) -> float | None:
    """Return when the first certificate of a PEM file ends, in Unix time. None: the file has no readable
    certificate."""
    try:
        text = file.read_text("latin-1")
        pem = text[text.index(_BEGIN) : text.index(_END) + len(_END)]
        return _not_after_s(ssl.PEM_cert_to_DER_cert(pem))
    except (OSError, ValueError, IndexError):
        return None


def _not_after_s(der: bytes) -> float:
    """Skip the fields before Validity (RFC 5280): version, serial number, algorithm and issuer."""
    _, pos, _ = _head(der, 0)  # Certificate
    _, pos, _ = _head(der, pos)  # TBSCertificate
    tag, _, end = _head(der, pos)
    if tag == _VERSION:
        pos = end
    for _ in range(3):
        _, _, pos = _head(der, pos)
    tag, pos, _ = _head(der, pos)
    if tag != _SEQUENCE:
        raise ValueError("no validity period where RFC 5280 places it")
    _, _, pos = _head(der, pos)  # notBefore
    tag, begin, end = _head(der, pos)
    text = der[begin:end].decode("ascii")
    if tag == _UTC_TIME:
        # A two-digit year of 50 or more means 19xx.
        text = ("19" if text[:2] >= "50" else "20") + text
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp()


def _head(der: bytes, pos: int) -> tuple[int, int, int]:
    """Return the tag at `pos`, and where its content begins and ends."""
    tag, length = der[pos], der[pos + 1]
    pos += 2
    if length & 0x80:
        width = length & 0x7F
        length, pos = int.from_bytes(der[pos : pos + width], "big"), pos + width
    return tag, pos, pos + length
