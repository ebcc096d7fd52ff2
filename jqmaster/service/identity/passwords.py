"""Hashes and checks passwords with argon2id, in a few threads of low priority."""

import asyncio
import contextlib
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from argon2 import PasswordHasher
from argon2.exceptions import Argon2Error, InvalidHashError

from jqmaster.errors import RateLimitedError

# Maximum number of checks at the same time. Each check takes 64 MiB and a core for about 50 ms. More of them would slow
# down the work for jobs.
MAX_AT_ONCE: Final = 2
MAX_WAITING: Final = 20
MAX_WAITING_OF_CALLER: Final = 5
# Number of further waiting places that only trusted callers get. So other callers cannot take all places.
TRUSTED_RESERVE: Final = 10
# Added to the niceness of the threads. argon2 uses several cores, and the event loop often needs one of them.
_NICENESS: Final = 10

_T = TypeVar("_T")


class Passwords:
    """Component: hashes and checks passwords."""

    def __init__(self) -> None:
        self._hasher = h = PasswordHasher()
        # A hash that no password matches. A check against it takes as long as any other check.
        self._nobodys = (
            f"$argon2id$v=19$m={h.memory_cost},t={h.time_cost},p={h.parallelism}${'A' * 22}${'A' * 43}"
        )
        self._threads = ThreadPoolExecutor(MAX_AT_ONCE, "passwords", initializer=_lower_priority)
        self._waiting: Counter[str] = Counter()

    async def start(self) -> None:
        """Do nothing: the threads start with the first call."""

    async def stop(self) -> None:
        """Let the threads end after their current work."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    @contextlib.contextmanager
    def place(self, caller: str, *, is_trusted: bool = False) -> Iterator[None]:
        """Hold a place in the queue for a check. Raise RateLimitedError at once if too many calls wait, or too many
        calls of this caller."""
        most = MAX_WAITING + (TRUSTED_RESERVE if is_trusted else 0)
        is_greedy = not is_trusted and self._waiting[caller] >= MAX_WAITING_OF_CALLER
        if is_greedy or self._waiting.total() >= most:
            raise RateLimitedError(
                "too many logins at once; wait a moment", code="too_many_logins", retry_after_s=2.0
            )
        self._waiting[caller] += 1
        try:
            yield
        finally:
            self._waiting[caller] -= 1
            self._waiting += Counter()  # removes entries that are 0

    async def hash(self, password: str) -> str:
        """Return a hash with a new salt. Raise RateLimitedError while too many calls wait."""
        with self.place("", is_trusted=True):
            return await self._run(self._hash, password)

    async def check(self, hashed: str | None, password: str) -> bool:
        """Return whether the password matches. Call this only within a `place`. Without `hashed`, return False after
        the time that any other check takes."""
        return await self._run(self._check, hashed, password)

    async def _run(self, act: Callable[..., _T], *args: object) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, act, *args)

    def _hash(self, password: str) -> str:
        return self._hasher.hash(password)

    def _check(self, hashed: str | None, password: str) -> bool:
        try:
            return self._hasher.verify(hashed or self._nobodys, password) and hashed is not None
        except (Argon2Error, InvalidHashError):
            return False


def _lower_priority() -> None:
    # Only Linux has priorities of threads. The threads that argon2 starts inherit the priority of this thread.
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
