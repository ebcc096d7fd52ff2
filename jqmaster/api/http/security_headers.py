"""The security headers of every answer of a master, in one table."""

from typing import Final

NO_STORE: Final = (b"cache-control", b"no-store")


def security_headers(
    content_policy: str, *, referrer: bytes = b"no-referrer"
) -> tuple[tuple[bytes, bytes], ...]:
    """Return the security headers of an answer. `content_policy`: its Content-Security-Policy."""
    return (
        (b"x-content-type-options", b"nosniff"),
        (b"content-security-policy", content_policy.encode()),
        (b"cross-origin-opener-policy", b"same-origin"),
        (b"cross-origin-resource-policy", b"same-origin"),
        (b"referrer-policy", referrer),
    )


# Headers of the API's answers and refusals. An answer is data and not a page, so it may load nothing, and no
# cache may keep it.
DATA_HEADERS: Final = (*security_headers("default-src 'none'; frame-ancestors 'none'"), NO_STORE)
