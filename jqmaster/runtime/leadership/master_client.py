"""Ask other masters whether they are alive."""

import asyncio
import logging
import ssl
from typing import Final

import msgpack

from jqmaster.domain.operations.master import MasterRecord
from worker_sdk.transport.call_faults import Remedies, cause_of, explained
from worker_sdk.transport.http_client import DirectRoute, HttpClient, NoAnswerError, NotSentError, field_lines
from worker_sdk.transport.tls import LiveContext, client_context

logger = logging.getLogger(__name__)

# Timeout of a call to another master. A live master answers in milliseconds; one that takes longer than this is too
# busy to lead well.
ANSWER_WITHIN_S: Final = 0.5
_REMEDIES: Final = Remedies("does the master run?", "calls_cafile", "calls_certfile")
MAX_ANSWER_BYTES: Final = 1024

_FIELD_LINES: Final = field_lines(
    {"Accept": "application/msgpack", "Accept-Encoding": "identity", "Connection": "close"}
)


class PeerClient:
    """Component: asks other masters whether they are alive. It sends no credential, follows no redirects, and reads no
    proxy settings."""

    def __init__(self, tls: LiveContext | None = None) -> None:
        """`tls`: the client certificate for masters that ask for one. The server's certificate is not checked."""
        self._tls = tls
        self._answered: set[str] = set()
        # The latest call to each master, by its ID and address.
        self._asked: dict[tuple[str, str], asyncio.Task[bool]] = {}
        # Do not keep connections: calls are rare, and a kept connection could outlive the master at this address.
        self._http = HttpClient(
            DirectRoute(self._context),
            max_answer_bytes=MAX_ANSWER_BYTES,
            keeps_connections=False,
            is_end_an_answer=True,
        )

    async def start(self) -> None:
        """Do nothing: nothing runs before the first call."""

    async def stop(self) -> None:
        for asked in self._asked.values():
            asked.cancel()
        await asyncio.gather(*self._asked.values(), return_exceptions=True)
        await self._http.close()

    async def answers(self, master: MasterRecord) -> bool:
        """Return whether exactly this master, and not a successor at its address, answers in time. All callers within
        `ANSWER_WITHIN_S` share one answer, because hundreds of shards may have lost their leader at once."""
        key = master.id, master.url
        asked = self._asked.get(key)
        if asked is None:
            asked = asyncio.create_task(self._ask(master), name="question to a master")
            self._asked[key] = asked
            asyncio.get_running_loop().call_later(ANSWER_WITHIN_S, self._asked.pop, key, None)
        return await asyncio.shield(asked)

    async def _ask(self, master: MasterRecord) -> bool:
        try:
            answer = await self._http.call(
                "GET",
                master.url,
                "/healthz",
                b"",
                _FIELD_LINES,
                timeout_s=ANSWER_WITHIN_S,
                connect_timeout_s=ANSWER_WITHIN_S,
            )
            self._answered.add(master.url)
            if answer.status != 200 or len(answer.body) > MAX_ANSWER_BYTES:
                return False
            return bool(msgpack.unpackb(answer.body)["id"] == master.id)
        except (NotSentError, NoAnswerError, ValueError, TypeError, KeyError) as exc:
            logger.info(
                "no answer from master %s at %s (%s)",
                master.id,
                master.url,
                explained(cause_of(exc), master.url, _REMEDIES, has_answered=master.url in self._answered),
            )
            return False
        except msgpack.UnpackException:
            return False

    def _context(self) -> ssl.SSLContext:
        if self._tls is None:
            # Do not verify the certificate: it may belong to another name, and the call contains no secret.
            self._tls = client_context(None, None, None, verifies=False)
        self._tls.refresh()
        return self._tls.context
