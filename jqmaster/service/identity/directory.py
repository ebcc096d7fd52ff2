"""This master's copy of the tokens, with which it checks requests."""

import asyncio
import contextlib
import hmac
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from jqmaster.clock import (
    NOW_S,
    TICK_S,
    Clock,
    DueTime,
    SharedRests,
    WakeFlag,
    until_tick_s,
    wait_for_event,
)
from jqmaster.domain.identity.access import (
    ConfiguredTokens,
    Principal,
    Scope,
    digest_of,
    token_id_of,
    with_implied,
)
from jqmaster.domain.matching.glob import compile_glob
from jqmaster.domain.operations.master import ANSWER_LIVES_S
from jqmaster.errors import JqmasterError, StoreUnavailableError
from jqmaster.lifecycle import BackgroundLoops
from jqmaster.store.identity.credentials import CredentialStore, Directory, StoredToken
from jqmaster.store.identity.logins import LoginStore

POLL_S: Final = 2.0
# Age at which the copy is read again, at the next tick.
OLD_S: Final = POLL_S - TICK_S
# Maximum age of a copy that is used. An older copy may lack a revocation.
TRUSTED_S: Final = 5.0
NOTE_USES_S: Final = 60.0
_PUSHERS: Final = frozenset({Scope.PUSH, Scope.WORK})


class IdentityDirectory:
    """Component: checks the tokens of requests. It uses a copy of the tokens in the store, up to the age `TRUSTED_S`.
    All methods except `find` raise what the store raises.

    `has_any`: whether the copy has a token or user.

    `starts_blind`: whether to start even if the store is unreachable. Until the first read, `has_any` is then True, so
    that nobody is admitted without a token.

    `fresh`: the time until which the copy counts as current. Each answer to a heartbeat that has the version of the
    copy extends this time.
    """

    def __init__(
        self,
        store: CredentialStore,
        logins: LoginStore,
        clock: Clock,
        configured: ConfiguredTokens,
        *,
        rests: SharedRests | None = None,
        fresh: DueTime | None = None,
        starts_blind: bool = False,
    ) -> None:
        self._store = store
        self._logins = logins
        self._clock = clock
        self._configured = configured
        self._starts_blind = starts_blind
        self._directory = Directory(0, 0, {}, 0)
        self.has_any = starts_blind
        self._principals: dict[str, Principal] = {}
        # The times at which the copy was last known to be current: by the clock of this process, and by the store's
        # clock.
        self._read_at_s, self._read_at_ms = NOW_S, 0
        self._used_ms: dict[str, int] = {}
        self._woken = WakeFlag()
        self._rests = rests or SharedRests(clock)
        self._fresh = fresh or DueTime()
        self._loops = BackgroundLoops("identity", is_vital=True)

    async def start(self) -> None:
        """Read the tokens before the first request is served."""
        try:
            await self.reload()
        except JqmasterError:
            if not self._starts_blind:
                raise
        self._loops.spawn("follow", self._follow)
        self._loops.spawn("note_uses", self._note_uses)

    async def stop(self) -> None:
        await self._loops.stop()
        with contextlib.suppress(JqmasterError):  # best effort: only times of last use are lost
            await self._flush_uses()

    def wake(self) -> None:
        """Make the loop read the store again. Use this after a change of tokens or users."""
        self._woken.set()

    def take_version(self, version: int, now_ms: int, read_at_s: float) -> bool:
        """Compare the version of the store with the version of the copy. If they differ, make the loop read the
        changes. Return whether they are equal.

        * `now_ms`: the store's time when the version was read.
        * `read_at_s`: a time just before the read, by the clock of this process.
        """
        if version != self._directory.version:
            self._woken.set()
            return False
        if read_at_s > self._read_at_s:
            self._read_at_s, self._read_at_ms = read_at_s, now_ms
        return True

    async def reload(self) -> None:
        """Read the changes of tokens and users."""
        asked_at_s = self._clock.monotonic_s()
        version, now_ms = await self._store.version()
        if self._read_at_s == NOW_S or version != self._directory.version:
            directory = await self._store.load()
            self._principals = {t.id: principal_of(t) for t in directory.tokens.values()}
            self._directory = directory
            self.has_any = bool(directory.tokens or directory.user_count)
            now_ms = directory.now_ms
        # Use the times from before the read: the copy may lack changes that were made during it.
        self._read_at_s, self._read_at_ms = asked_at_s, now_ms

    async def reload_after_change(self) -> None:
        """Read the store after a change at this master. If the store does not answer, the loop reads it later."""
        with contextlib.suppress(JqmasterError):  # the change is stored, and the loop will read it
            await self.reload()

    @property
    def now_ms(self) -> int:
        """Return an estimate of the store's time."""
        return self._at_ms(self._clock.monotonic_s())

    @property
    def read_at_ms(self) -> int:
        """Return when the copy was last known to be current, by the store's clock."""
        return self._at_ms(self._current_at_s())

    def _at_ms(self, at_s: float) -> int:
        return 0 if self._read_at_s == NOW_S else self._read_at_ms + round((at_s - self._read_at_s) * 1000)

    def _current_at_s(self) -> float:
        """Return when the copy was last known to be current, by the clock of this process."""
        return max(self._read_at_s, self._fresh.at_s - ANSWER_LIVES_S)

    @property
    def tokens(self) -> Mapping[str, StoredToken]:
        """Return all tokens by ID."""
        return self._directory.tokens

    @property
    def used_ms(self) -> Mapping[str, int]:
        """Return, by token ID, the times of last use at this master that are not stored yet."""
        return self._used_ms

    @property
    def has_users(self) -> bool:
        """Return whether there are users, who log in by name and password."""
        return self._directory.user_count > 0

    def find(self, token: bytes, *, pushers_trusted_s: float = TRUSTED_S) -> Principal | None:
        """Return the caller with this token, or None if the token is not valid. This takes no round trip to the store.
        `pushers_trusted_s`: how old the copy may be for tokens with only the scopes push and work.

        Raise StoreUnavailableError if it is unknown whether the token was revoked.
        """
        digest = digest_of(token)
        if (principal := self._configured.find(digest)) is not None:
            return principal
        token_id = token_id_of(token.decode("latin-1"))
        if token_id is None:
            return None
        stored = self._directory.tokens.get(token_id)
        now_s = self._clock.monotonic_s()
        age_s = now_s - self._current_at_s()
        only_pushes = stored is not None and stored.scopes <= _PUSHERS
        if age_s > (pushers_trusted_s if only_pushes else TRUSTED_S):
            self.wake()
            raise StoreUnavailableError("the token cannot be checked at this moment", retry_after_s=1.0)
        if stored is None or not hmac.compare_digest(stored.digest, digest):
            return None
        now_ms = self._at_ms(now_s)
        if stored.is_expired(now_ms):
            return None
        self._used_ms[token_id] = now_ms
        return self._principals[token_id]

    async def _follow(self) -> None:
        while True:
            # While the answers to this master's heartbeats show an unchanged version, the store need not be read.
            await self._rests.wait(self._woken, self._is_old, due=self._fresh)
            try:
                await self.reload()
            except JqmasterError:  # the loop tries again later; `find` uses no copy that is too old
                await wait_for_event(self._woken, until_tick_s(self._clock.monotonic_s(), POLL_S))

    def _is_old(self) -> bool:
        return self._clock.monotonic_s() >= self._current_at_s() + OLD_S

    async def _note_uses(self) -> None:
        while True:
            await asyncio.sleep(NOTE_USES_S)
            with contextlib.suppress(
                JqmasterError
            ):  # best effort: these uses are stored with the next minute's
                await self._flush_uses()
                await self._logins.close_folds()

    async def _flush_uses(self) -> None:
        used_ms = dict(self._used_ms)
        await self._store.note_uses(used_ms)
        for token_id, ms in used_ms.items():
            if self._used_ms.get(token_id) == ms:
                del self._used_ms[token_id]


def principal_of(token: StoredToken) -> Principal:
    """Return the caller that a token identifies."""
    lineage = f"token:{token.lineage}" if token.lineage else ""
    whole = Principal(f"token:{token.id}", with_implied(token.scopes), _name_test(token.names), lineage)
    return whole.bound_to(token.namespaces) if token.namespaces else whole


def _name_test(names: Sequence[str]) -> Callable[[str], bool] | None:
    if not names:
        return None
    tests = [compile_glob(pattern) for pattern in names]
    return lambda name: any(test(name) for test in tests)
