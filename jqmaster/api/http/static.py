"""The web UI's files at `/`. They are public because they contain only code. All data that they show come from
the API."""

import asyncio
import base64
import functools
import gzip
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final, NamedTuple

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from jqmaster.api.encoding.negotiation import has_tag, join_fields, negotiate, takes_gzip
from jqmaster.api.http.problems import problem_response
from jqmaster.api.http.security_headers import security_headers

# Content types by the ending of a file's name. Files with other endings, such as `.d.ts`, are not served.
CONTENT_TYPES: Final = {
    ".html": b"text/html; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".css": b"text/css; charset=utf-8",
    ".svg": b"image/svg+xml",
    ".png": b"image/png",
    ".txt": b"text/plain; charset=utf-8",
}
INDEX: Final = "index.html"
# Path of the bundle, the output of `make bundle`: the same UI in a few files, which browsers load quickly.
BUNDLE: Final = "/bundle/"
SOURCES: Final = f"{BUNDLE}sources.sha256"
SOURCE_KINDS: Final = (".js", ".css", ".html")
_POLICY: Final = (
    "default-src 'none'; script-src 'self'%s; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
_VARY: Final = (b"vary", b"accept-encoding")
# Makes browsers revalidate a file at each use. The answer is usually 304. So no page mixes old and new modules
# after an upgrade of the master.
_ASKED_AGAIN: Final = (b"cache-control", b"no-cache")
# Lets browsers keep a file for ever. The address of such a file contains a digest of its content, so its content
# never changes.
_FOR_EVER: Final = (b"cache-control", b"public, max-age=31536000, immutable")
HEADERS: Final = (*security_headers(_POLICY % ""), _VARY, _ASKED_AGAIN)
_INLINE: Final = re.compile(rb"<script>(.*?)</script>", re.DOTALL)
_VERSION_LENGTH: Final = 16
_ALLOW: Final = "GET, HEAD"
# Minimum size of a file to compress. Compressing a smaller file would not save a network packet.
_MIN_GZIP_BYTES: Final = 1024
# Paths of the modules that contain pages. The group is the name of the page.
_PAGE: Final = re.compile(r"/\w+/pages(/\w+)\.js")


class _File(NamedTuple):
    kind: bytes
    content: bytes


@dataclass(frozen=True, slots=True)
class _FileBody:
    etag: bytes
    data: bytes
    headers: list[tuple[bytes, bytes]]
    # Digest of the content before gzip. The address of an immutable file contains it as its query.
    version: bytes


class Site:
    """ASGI application that serves a fixed table of files, read once. Requests for any other path go to `otherwise`.

    Only paths in the table match, so no path can reach other files.
    """

    def __init__(self, otherwise: ASGIApp, root: Traversable | None = None) -> None:
        """`root`: the folder of the files, by default `jqmaster/web`."""
        self._otherwise = otherwise
        found = _packaged() if root is None else _site_files(root)
        kinds = {path: CONTENT_TYPES.get(path[path.rfind(".") :]) for path in found}
        self._files = {path: _File(kind, found[path]) for path, kind in kinds.items() if kind is not None}
        if f"/{INDEX}" in self._files:
            self._files["/"] = self._files[f"/{INDEX}"]
        self._pages = {page[1] for path in self._files if (page := _PAGE.fullmatch(path))}
        # Bodies by path and by whether they are compressed. Each body is built when it is first needed, because
        # building all bodies takes longer than the rest of the start.
        self._bodies: dict[tuple[str, bool], _FileBody] = {}

    @property
    def paths(self) -> Iterable[str]:
        """All paths that are served."""
        return self._files.keys()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] not in self._files:
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
            await response(scope, receive, send)
            return
        body = await self._body_of(scope["path"], is_packed=takes_gzip(fields))
        headers = body.headers
        if scope["query_string"] == b"v=" + body.version:
            headers = [_FOR_EVER if field == _ASKED_AGAIN else field for field in headers]
        if has_tag(fields, body.etag):
            about_body = (b"content-type", b"content-length", b"content-encoding")
            kept = [field for field in headers if field[0] not in about_body]
            await _answer(send, HTTPStatus.NOT_MODIFIED, kept, b"")
            return
        await _answer(send, HTTPStatus.OK, headers, body.data if method == "GET" else b"")

    async def _body_of(self, path: str, *, is_packed: bool) -> _FileBody:
        key = path, is_packed
        if key not in self._bodies:
            make = _packed_body if is_packed else _plain_body
            # Build the body in a thread, because compressing the largest file takes about 20 ms.
            self._bodies[key] = await asyncio.to_thread(make, self._files[path])
        return self._bodies[key]

    def _page(self, scope: Scope) -> bytes | None:
        """Return the address in the UI of a page that a browser requests by path: `/#/jobs?state=failed` for
        `/jobs?state=failed`. The address is relative, because a proxy may serve the UI below a path."""
        path: str = scope["path"]
        if scope["method"] not in ("GET", "HEAD") or path not in self._pages:
            return None
        if b"text/html" not in join_fields(scope["headers"]).get(b"accept", b"").lower():
            return None
        query: bytes = scope.get("query_string", b"")
        return b"./#" + path.encode() + (b"?" + query if query else b"")


@functools.cache
def _packaged() -> dict[str, bytes]:
    """Read the package's own files once for all masters of the process."""
    return _site_files(files("jqmaster") / "web")


def _site_files(root: Traversable) -> dict[str, bytes]:
    """Return the files below `root` by path. If the bundle is up to date, its index replaces the index of the
    sources."""
    found = dict(_read(root))
    if is_bundle_current(found):
        found[f"/{INDEX}"] = found[f"{BUNDLE}{INDEX}"]
    return found


def _read(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, bytes]]:
    """Yield the path from the root and the content of every file below `folder`."""
    for entry in sorted(folder.iterdir(), key=lambda found: found.name):
        path = f"{prefix}/{entry.name}"
        if entry.is_dir():
            yield from _read(entry, path)
        else:
            yield path, entry.read_bytes()


def is_bundle_current(found: Mapping[str, bytes]) -> bool:
    """Return whether the bundle was built from the current sources. If not, browsers get the modules. `found`: files
    by path."""
    return found.get(SOURCES, b"").decode().strip() == sources_digest(found)


def sources_digest(found: Mapping[str, bytes]) -> str:
    """Return the digest of the bundle's source files, as tools/web/bundle.js computes it."""
    lines = sorted(
        f"{path[1:]} {hashlib.sha256(data).hexdigest()}\n"
        for path, data in found.items()
        if path.endswith(SOURCE_KINDS) and not path.startswith(BUNDLE)
    )
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _plain_body(file: _File) -> _FileBody:
    return _body(file.kind, file.content, file.content)


def _packed_body(file: _File) -> _FileBody:
    """Return the file compressed, or unchanged if that saves nothing."""
    if len(file.content) >= _MIN_GZIP_BYTES:
        packed = gzip.compress(file.content, 9, mtime=0)
        if len(packed) < len(file.content):
            return _body(file.kind, packed, file.content, (b"content-encoding", b"gzip"))
    return _plain_body(file)


def _body(kind: bytes, data: bytes, content: bytes, *more: tuple[bytes, bytes]) -> _FileBody:
    # Give the compressed and the uncompressed form different ETags, as caches require.
    etag = b'"%s"' % hashlib.sha256(data).hexdigest()[:32].encode()
    length = str(len(data)).encode()
    # Put the digest of each inline script into the policy. The policy then allows no other inline scripts.
    inline = _INLINE.findall(content) if kind.startswith(b"text/html") else []
    hashes = "".join(f" 'sha256-{base64.b64encode(hashlib.sha256(one).digest()).decode()}'" for one in inline)
    headers = [
        (b"content-type", kind),
        (b"content-length", length),
        *more,
        (b"etag", etag),
        *security_headers(_POLICY % hashes),
        _VARY,
        _ASKED_AGAIN,
    ]
    return _FileBody(etag, data, headers, hashlib.sha256(content).hexdigest()[:_VERSION_LENGTH].encode())


async def _answer(send: Send, status: int, headers: list[tuple[bytes, bytes]], data: bytes) -> None:
    await send({"type": "http.response.start", "status": int(status), "headers": headers})
    await send({"type": "http.response.body", "body": data})
