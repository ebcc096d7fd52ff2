"""Passwords: argon2id, in a thread, few at once."""

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

from argon2 import PasswordHasher
from argon2.exceptions import Argon2Error, InvalidHashError

from jqmaster.errors import RateLimitedError

# Each takes 64 MiB and a core for some 50 ms; more at once would take both from the jobs.
MAX_AT_ONCE: Final = 2
MAX_WAITING: Final = 20

_T = TypeVar("_T")


class Passwords:
    """Hashes and checks. Raises RateLimitedError while too many wait."""

    def __init__(self) -> None:
        self._hasher = h = PasswordHasher()
        # Of no password, and checked as slowly as any other.
        self._nobodys = (
            f"$argon2id$v=19$m={h.memory_cost},t={h.time_cost},p={h.parallelism}${'A' * 22}${'A' * 43}"
        )
        self._room = asyncio.Semaphore(MAX_AT_ONCE)
        self._waiting = 0

    async def hash(self, password: str) -> str:
        """With a salt of its own."""
        return await self._run(self._hash, password)

    async def check(self, hashed: str | None, password: str) -> bool:
        """Whether it is the password. `hashed` None: it is not, and that takes as long as any other."""
        return await self._run(self._check, hashed, password)

    async def _run(self, act: Callable[..., _T], *args: object) -> _T:
        if self._waiting >= MAX_WAITING:
            raise RateLimitedError(
                "too many logins at once; wait a moment", code="too_many_logins", retry_after_s=2.0
            )
        self._waiting += 1
        try:
            async with self._room:
                return await asyncio.to_thread(act, *args)
        finally:
            self._waiting -= 1

    def _hash(self, password: str) -> str:
        return self._hasher.hash(password)

    def _check(self, hashed: str | None, password: str) -> bool:
        try:
            return self._hasher.verify(hashed or self._nobodys, password) and hashed is not None
        except (Argon2Error, InvalidHashError):
            return False
