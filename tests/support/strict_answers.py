"""The security headers on every answer of a master."""

import httpx


def check_headers(headers: httpx.Headers) -> None:
    """Assert that a browser cannot do harm when it shows, embeds or keeps the answer."""
    assert headers["content-security-policy"].startswith("default-src 'none'")
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cross-origin-opener-policy"] == "same-origin"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] in ("no-store", "no-cache") or "immutable" in headers["cache-control"]
    # Readers may use either value of a duplicate field.
    names = [name for name, _ in headers.multi_items()]
    assert len(names) == len(set(names))
    assert not [name for name in names if name.startswith("access-control-")]
    assert "server" not in headers
    assert "x-powered-by" not in headers


def headers_of(answer: bytes) -> httpx.Headers:
    """Return an answer's header fields as they came over the wire."""
    lines = answer.partition(b"\r\n\r\n")[0].split(b"\r\n")[1:]
    return httpx.Headers(
        [(name, value.strip()) for name, _, value in (line.partition(b":") for line in lines)]
    )
