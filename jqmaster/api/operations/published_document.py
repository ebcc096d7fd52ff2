"""The OpenAPI document as masters serve it. Anybody may request it, so each form of the document is encoded only
once."""

import asyncio
import gzip
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jqmaster.api.encoding.answers import encode
from jqmaster.api.encoding.negotiation import Encoding


@dataclass(frozen=True, slots=True)
class PublishedForm:
    """One form of the document. `tag`: its entity tag. Caches require a different tag for each form."""

    media_type: bytes
    is_packed: bool
    body: bytes
    tag: bytes


class PublishedDocument:
    """The OpenAPI document in all its forms. `make` builds the document at the first request, because most
    masters never get such a request."""

    def __init__(self, make: Callable[[], dict[str, Any]]) -> None:
        self._make = make
        self._forms: dict[tuple[Encoding, bool], PublishedForm] = {}
        self._lock = asyncio.Lock()

    async def form(self, encoding: Encoding, *, is_packed: bool) -> PublishedForm:
        """Return the document in this encoding; `is_packed`: compressed by gzip."""
        key = encoding, is_packed
        async with self._lock:
            if key not in self._forms:
                # Build the document in a thread, because building takes about a second.
                self._forms[key] = await asyncio.to_thread(self._made, *key)
            return self._forms[key]

    def _made(self, encoding: Encoding, is_packed: bool) -> PublishedForm:
        body = encode(self._make(), encoding)
        if is_packed:
            body = gzip.compress(body, 9, mtime=0)
        tag = b'"%s"' % hashlib.sha256(body).hexdigest()[:32].encode()
        return PublishedForm(encoding.value.encode(), is_packed, body, tag)
