"""The web UI's files at `/`. Open to anybody: they hold nothing but code, and all that they show comes from the API."""

import gzip
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from jqmaster.api.encoding.negotiation import Fields, join_fields, negotiate
from jqmaster.api.http.problems import problem_response

# Files of other kinds (types for the checker, for example) are not served.
CONTENT_TYPES: Final = {
    ".html": b"text/html; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".css": b"text/css; charset=utf-8",
    ".svg": b"image/svg+xml",
    ".png": b"image/png",
    ".txt": b"text/plain; charset=utf-8",
}
INDEX: Final = "index.html"
HEADERS: Final = [
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        b"form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    # Asked again each time, answered by 304: after an upgrade of the master no page mixes old modules with new ones.
    (b"cache-control", b"no-cache"),
    (b"vary", b"accept-encoding"),
]
_ALLOW: Final = "GET, HEAD"
# Below it a compressed body saves no packet.
_MIN_GZIP_BYTES: Final = 1024


@dataclass(frozen=True, slots=True)
class _Body:
    etag: bytes
    data: bytes
    headers: list[tuple[bytes, bytes]]


class Site:
    """ASGI application: a fixed table of files, read once; every other path goes to `otherwise`.

    Paths are compared whole with those of the table, so that none can lead out of it.
    """

    def __init__(self, otherwise: ASGIApp, root: Traversable | None = None) -> None:
        """`root`: the folder of the files, by default `jqmaster/web`."""
        self._otherwise = otherwise
        self._plain: dict[str, _Body] = {}
        self._gzip: dict[str, _Body] = {}
        for path, data in _read(root or files("jqmaster") / "web"):
            kind = CONTENT_TYPES.get(path[path.rfind(".") :])
            if kind is None:
                continue
            for url in {path, "/" if path == f"/{INDEX}" else path}:
                self._plain[url] = _body(kind, data)
                packed = gzip.compress(data, 9, mtime=0)
                if len(data) >= _MIN_GZIP_BYTES and len(packed) < len(data):
                    self._gzip[url] = _body(kind, packed, (b"content-encoding", b"gzip"))

    @property
    def paths(self) -> Iterable[str]:
        """All that is served."""
        return self._plain.keys()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = self._plain.get(scope["path"]) if scope["type"] == "http" else None
        if body is None:
            if scope["type"] == "http" and (page := self._page(scope)) is not None:
                await _answer(send, HTTPStatus.FOUND, [(b"location", page), *HEADERS], b"")
                return
            await self._otherwise(scope, receive, send)
            return
        fields = join_fields(scope["headers"])
        method = scope["method"]
        if method not in ("GET", "HEAD"):
            refusal = HTTPException(HTTPStatus.METHOD_NOT_ALLOWED, headers={"Allow": _ALLOW})
            response = problem_response(refusal, negotiate(fields, strict=False))
            response.raw_headers += HEADERS
            await response(scope, receive, send)
            return
        if _takes_gzip(fields):
            body = self._gzip.get(scope["path"], body)
        if _has(fields, body.etag):
            await _answer(send, HTTPStatus.NOT_MODIFIED, [(b"etag", body.etag), *HEADERS], b"")
            return
        await _answer(send, HTTPStatus.OK, body.headers, body.data if method == "GET" else b"")

    def _page(self, scope: Scope) -> bytes | None:
        """Return the UI's address of a page that a browser asks for by path: `/jobs?state=failed` is
        `/#/jobs?state=failed`."""
        path: str = scope["path"]
        if scope["method"] not in ("GET", "HEAD") or f"/pages{path}.js" not in self._plain:
            return None
        if b"text/html" not in join_fields(scope["headers"]).get(b"accept", b"").lower():
            return None
        query: bytes = scope.get("query_string", b"")
        return b"/#" + path.encode() + (b"?" + query if query else b"")


def _read(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, bytes]]:
    """Path from the root and content of every file below `folder`."""
    for entry in sorted(folder.iterdir(), key=lambda found: found.name):
        path = f"{prefix}/{entry.name}"
        if entry.is_dir():
            yield from _read(entry, path)
        else:
            yield path, entry.read_bytes()


def _body(kind: bytes, data: bytes, *more: tuple[bytes, bytes]) -> _Body:
    # Each form has a tag of its own, as a cache in between demands.
    etag = b'"%s"' % hashlib.sha256(data).hexdigest()[:32].encode()
    length = str(len(data)).encode()
    return _Body(
        etag, data, [(b"content-type", kind), (b"content-length", length), *more, (b"etag", etag), *HEADERS]
    )


def _takes_gzip(fields: Fields) -> bool:
    for entry in fields.get(b"accept-encoding", b"").lower().split(b","):
        coding, _, weight = entry.partition(b";")
        if coding.strip() == b"gzip":
            return weight.replace(b" ", b"") not in (b"q=0", b"q=0.0", b"q=0.00", b"q=0.000")
    return False


def _has(fields: Fields, etag: bytes) -> bool:
    held = fields.get(b"if-none-match", b"")
    return held.strip() == b"*" or etag in [tag.strip().removeprefix(b"W/") for tag in held.split(b",")]


async def _answer(send: Send, status: int, headers: list[tuple[bytes, bytes]], data: bytes) -> None:
    await send({"type": "http.response.start", "status": int(status), "headers": headers})
    await send({"type": "http.response.body", "body": data})
