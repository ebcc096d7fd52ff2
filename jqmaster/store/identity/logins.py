"""Attempts to log in: how many there were, and what the access log says of those that failed."""

from typing import Final

from jqmaster.store.link.shard import Shard

# The counter of failed logins holds at most so many addresses and users; then all counts restart.
MAX_COUNTED: Final = 10_000
LOGIN_WINDOW_MS: Final = 60_000
# More than the greatest age of a login's ID token.
USED_LOGIN_LIFE_MS: Final = 900_000


class LoginStore:
    """Logins of one shard. Raises what `StoreClient.run` raises."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._client = shard.client
        self._keys = shard.keys

    async def count(self, address: str, user: str, *, most_of_address: int, most_of_user: int) -> int:
        """Count an attempt; return 0, or the ms to wait after too many. `address` and `user` are digests."""
        word, data = await self._client.run(
            "count_login",
            (self._keys.login_attempts,),
            (
                self._shard.now_arg,
                LOGIN_WINDOW_MS,
                most_of_address,
                most_of_user,
                MAX_COUNTED,
                address,
                user,
            ),
        )
        return 0 if word == "ok" else max(1, int(data[0]))

    async def use_once(self, digest: str) -> bool:
        """Note that a login by a provider was used; return whether this is the first time. `digest`: of its state."""
        word, _ = await self._client.run("use_login", (self._keys.login_used(digest),), (USED_LOGIN_LIFE_MS,))
        return word == "ok"

    async def log_refused(self, kind: str, access_entry: bytes) -> None:
        """Write a failed login into the access log. `kind`: how, and as whom; repeats of one kind are counted for an
        hour."""
        k = self._keys
        await self._client.run(
            "log_refused_login", (k.access, k.access_folds), (self._shard.now_arg, kind, access_entry)
        )

    async def close_folds(self) -> None:
        """Write the repeats of access events whose hour is over."""
        k = self._keys
        await self._client.run("close_access_folds", (k.access, k.access_folds), (self._shard.now_arg,))
