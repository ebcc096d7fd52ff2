"""The current request and its subject, for log records."""

import re
import secrets
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

# Request IDs that are accepted from clients. They appear in logs and answers, so only plain characters are
# allowed.
_REQUEST_ID: Final = re.compile(rb"[A-Za-z0-9_.:/+=@-]{1,128}")


@dataclass(slots=True)
class RequestContext:
    """The context of one request.

    * `given`: the field X-Request-ID.
    * `path`: the path parameters of the route. If the client sent no ID, the ID is created at the first use,
      because most IDs are never needed.
    """

    given: bytes | None
    path: Mapping[str, str]
    _id: str | None = None

    @property
    def given_id(self) -> str | None:
        """The client's own ID, if it is valid."""
        given = self.given
        return given.decode() if given is not None and _REQUEST_ID.fullmatch(given) else None

    @property
    def id(self) -> str:
        if self._id is None:
            self._id = self.given_id or secrets.token_hex(8)
        return self._id


# The request that is being served. None outside of requests.
REQUEST: Final[ContextVar[RequestContext | None]] = ContextVar("request", default=None)
