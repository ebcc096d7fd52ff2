"""Asks other masters whether they live."""

import logging
from typing import Final

import aiohttp
import msgpack

from jqmaster.domain.master import MasterRecord
from jqmaster.net.tls import LiveContext

logger = logging.getLogger(__name__)

# A living master answers in milliseconds; one that is busier than this does not lead well.
ANSWER_WITHIN_S: Final = 0.5
MAX_ANSWER_BYTES: Final = 1024


class MasterClient:
    """Component. It sends no credential, follows no redirects, and reads no proxy settings."""

    def __init__(self, tls: LiveContext | None = None) -> None:
        """`tls`: what is shown to masters that ask for a certificate; theirs is not looked at."""
        self._tls = tls
        self._session: aiohttp.ClientSession | None = None

    async def start(self) -> None:
        self._session = aiohttp.ClientSession(
            # A master may serve under a certificate for another name. Nothing that is said here is a secret.
            connector=aiohttp.TCPConnector(
                ssl=self._tls.context if self._tls else False, force_close=True, limit=4
            ),
            timeout=aiohttp.ClientTimeout(total=ANSWER_WITHIN_S),
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
        )

    async def stop(self) -> None:
        if self._session:
            await self._session.close()

    async def answers(self, master: MasterRecord) -> bool:
        """Whether this very master, and no successor at its address, answers in time."""
        assert self._session
        if self._tls:
            self._tls.refresh()
        try:
            async with self._session.get(
                f"{master.url}/healthz",
                headers={"Accept": "application/msgpack", "Accept-Encoding": "identity"},
                allow_redirects=False,
            ) as response:
                body = await response.content.read(MAX_ANSWER_BYTES)
                return response.status == 200 and bool(msgpack.unpackb(body)["id"] == master.id)
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError, TypeError, KeyError) as exc:
            logger.info("no answer from master %s at %s (%s)", master.id, master.url, type(exc).__name__)
            return False
        except msgpack.UnpackException:
            return False
