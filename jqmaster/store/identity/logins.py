"""Login attempts: counting all of them, and logging failed ones."""

from typing import Final

from jqmaster.store.link.scripts import ScriptCall, load
from jqmaster.store.link.shard import Shard

# Maximum number of addresses and users with counts of failed logins. If there are more, all counts start again at 0.
MAX_COUNTED: Final = 10_000
LOGIN_WINDOW_MS: Final = 60_000
# How long a used login is remembered: longer than the greatest accepted age of an ID token.
USED_LOGIN_LIFE_MS: Final = 900_000


class LoginStore:
    """Logins of one shard. Raises what `StoreClient.run` raises."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._client = shard.client
        self._keys = shard.keys

    async def count(self, address: str, user: str, *, most_of_address: int, most_of_user: int) -> int:
        """Count an attempt. Return 0, or the milliseconds to wait if there were too many. `address` and `user` are
        digests."""
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
        """Mark a login by a provider as used; return whether this is its first use. `digest`: the digest of the login's
        `state` parameter."""
        word, _ = await self._client.run("use_login", (self._keys.login_used(digest),), (USED_LOGIN_LIFE_MS,))
        return word == "ok"

    async def log_refused(self, kind: str, access_entry: bytes) -> None:
        """Write a failed login to the access log. `kind`: the login method and the user; for an hour, repeats of one
        kind are only counted."""
        k = self._keys
        await self._client.run(
            "log_refused_login", (k.access, k.access_folds), (self._shard.now_arg, kind, access_entry)
        )

    async def close_folds(self) -> None:
        """Write one entry for the repeats of each access event whose hour is over."""
        k = self._keys
        call = ScriptCall(load("close_access_folds"), (k.access, k.access_folds), (self._shard.now_arg,))
        await self._client.together.run(call)
