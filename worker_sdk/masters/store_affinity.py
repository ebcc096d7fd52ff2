"""Remember the store that this program belongs to, so that it does not trust a master of another store."""

import logging
import threading
import time
from collections.abc import Callable, Collection
from typing import Final

from worker_sdk import forked

logger = logging.getLogger(__name__)

HEADER: Final = "JQ-Store"
# Masters of another store are trusted only after no master of the former store has answered for this long. A store that
# was emptied and restarted counts as another store. The default is the length of a lease.
PATIENCE_S: Final = 15.0
_WARN_EVERY_S: Final = 60.0


class StoreAffinity:
    """`store` is the store of the first master that granted a call; "" until then. `foreign`: by address, the other
    store that the master there named last. The object is thread-safe.

    `patience_s` may be set at any time. All clients of a worker share one `StoreAffinity`.
    """

    def __init__(
        self, *, patience_s: float | None = None, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self.store = ""
        self.patience_s = PATIENCE_S if patience_s is None else patience_s
        self._now_s = now_s
        self.foreign: dict[str, str] = {}
        self._foreign_since_s = 0.0
        self._warned_at_s: dict[str, float] = {}
        # The lock is reentrant, because a signal handler may interrupt a call and make its own call.
        self._lock = threading.RLock()
        forked.renew_in_child(self)

    def renew(self) -> None:
        """Make a new lock in a forked process, because a thread of the parent may have held the old lock."""
        self._lock = threading.RLock()

    def admits(self, address: str, store: str, *, is_ok: bool, addresses: Collection[str]) -> bool:
        """Return whether to trust an answer from `address`. The master there named `store`. Older masters do not name
        their store, and are trusted. `addresses`: all addresses of this client.
        """
        if not store or (store == self.store and not self.foreign):
            return True
        with self._lock:
            if not self.store and is_ok:
                self.store = store
            if store == self.store or not self.store:
                self.foreign.clear()
                return True
            now_s = self._now_s()
            if not self.foreign:
                self._foreign_since_s = now_s
            self.foreign[address] = store
            self._warn(address, store, now_s)
            is_everywhere = all(self.foreign.get(one) == store for one in addresses)
            if is_everywhere and now_s - self._foreign_since_s >= self.patience_s:
                logger.warning(
                    "all masters have belonged to store %s for %.0f s: the former store, %s, no longer counts",
                    store, self.patience_s, self.store,
                )  # fmt: skip
                self.store = store
                self.foreign.clear()
            # The call named the former store, so even a master of the new store has refused the call.
            return False

    def _warn(self, address: str, store: str, now_s: float) -> None:
        if now_s - self._warned_at_s.get(address, -_WARN_EVERY_S) >= _WARN_EVERY_S:
            self._warned_at_s[address] = now_s
            logger.warning(
                "%s belongs to another store (%s, not %s): its answers are ignored, and it is tried last",
                address, store, self.store,
            )  # fmt: skip
