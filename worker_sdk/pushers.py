"""The pushers behind `ctx.enqueue`, made when first asked for: most workers need neither, and they are slow to import."""

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from worker_sdk.pusher import Pusher, SyncPusher


class LazyPushers:
    def __init__(self, masters: str | Sequence[str], token: str | None) -> None:
        self._masters = masters
        self._token = token
        self._lock = threading.Lock()
        self._pusher: Pusher | None = None
        self._sync_pusher: SyncPusher | None = None

    def pusher(self) -> "Pusher":
        """For the event loop."""
        if self._pusher is None:
            from worker_sdk.pusher import Pusher

            self._pusher = Pusher(self._masters, token=self._token)
        return self._pusher

    def sync_pusher(self) -> "SyncPusher":
        """For threads."""
        with self._lock:
            if self._sync_pusher is None:
                from worker_sdk.pusher import SyncPusher

                self._sync_pusher = SyncPusher(self._masters, token=self._token)
            return self._sync_pusher

    async def stop(self) -> None:
        if self._pusher is not None:
            await self._pusher.aclose()
        if self._sync_pusher is not None:
            self._sync_pusher.close()
