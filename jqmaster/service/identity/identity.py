"""Identity of callers: tokens and users in the store, logins, and sessions of browsers."""

import asyncio
import contextlib
import hashlib
import hmac
import logging
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from jqmaster.clock import Clock, until_tick_s
from jqmaster.domain.access import (
    ROLE_SCOPES,
    ConfiguredTokens,
    Principal,
    Role,
    Scope,
    digest_of,
    make_token,
    role_of,
    token_id_of,
    with_implied,
)
from jqmaster.domain.caller import caller_of
from jqmaster.domain.glob import compile_glob
from jqmaster.domain.password_rules import fault_of
from jqmaster.errors import (
    ConflictError,
    FieldError,
    ForbiddenError,
    InvalidError,
    JqmasterError,
    NotFoundError,
    RateLimitedError,
    StoreUnavailableError,
    UnauthorizedError,
    invalid,
)
from jqmaster.lifecycle import BackgroundLoops
from jqmaster.live_value import LiveValue
from jqmaster.service.identity import devices
from jqmaster.service.identity.passwords import Passwords
from jqmaster.store.identity.audit import encode_entry
from jqmaster.store.identity.identity import Directory, IdentityStore, ListedSession, StoredToken, StoredUser

logger = logging.getLogger(__name__)

POLL_S: Final = 2.0
# Data read longer ago than this may lack a revocation, so nobody is let in by it.
TRUSTED_S: Final = 5.0
NOTE_USES_S: Final = 60.0
MAX_OVERLAP_S: Final = 30 * 86_400
# An expired token is listed for so long, that people see why something stopped; then its place is free.
KEEP_EXPIRED_MS: Final = 30 * 86_400_000
_ADDRESS_SHARE: Final = 3
_SECRET_LENGTH: Final = 43


@dataclass(frozen=True, slots=True)
class LoginPolicy:
    """`session_life_ms`: the most that a session lasts; `session_idle_ms`: the most that it lasts unused. `login_attempts`: of
    one user in a minute."""

    session_life_ms: int
    session_idle_ms: int
    login_attempts: int


@dataclass(frozen=True, slots=True)
class Session:
    """A login that holds. `csrf_token` must come with whatever it changes."""

    principal: Principal
    role: Role | None
    until_ms: int
    csrf_token: str
    subject: str = ""
    digest: str = ""


@dataclass(frozen=True, slots=True)
class ListedToken:
    """A token as its owner's administrators see it."""

    token: StoredToken
    last_used_ms: int | None


class IdentityService:
    """Component. Tokens are judged by a copy of the store's, which is never older than `TRUSTED_S`; sessions and logins by
    the store itself. All but `find` and `has_any` raise what the store raises."""

    def __init__(
        self,
        store: IdentityStore,
        clock: Clock,
        configured: ConfiguredTokens,
        policy: LiveValue[LoginPolicy],
        *,
        is_exposed: bool = False,
    ) -> None:
        """`is_exposed`: callers that come from this machine are not trusted for it."""
        self._store = store
        self._clock = clock
        self._configured = configured
        self._policy = policy
        self._is_exposed = is_exposed
        self._passwords = Passwords()
        self._directory = Directory(0, 0, {}, 0)
        self._principals: dict[str, Principal] = {}
        self._read_at_s = float("-inf")
        self._used_ms: dict[str, int] = {}
        self._woken = asyncio.Event()
        self._loops = BackgroundLoops("identity")

    async def start(self) -> None:
        """Read the tokens before the first request is served."""
        await self.reload()
        self._loops.spawn("follow", self._follow)
        self._loops.spawn("note_uses", self._note_uses)

    async def stop(self) -> None:
        await self._loops.stop()
        self._passwords.stop()
        with contextlib.suppress(JqmasterError):  # best effort: it says when a token was last used
            await self._flush_uses()

    # --- the copy

    def wake(self) -> None:
        """Somebody changed something."""
        self._woken.set()

    async def reload(self) -> None:
        """Read changes of tokens and users."""
        asked_at_s = self._clock.monotonic_s()
        version, now_ms = await self._store.version()
        if self._read_at_s == float("-inf") or version != self._directory.version:
            directory = await self._store.load()
            self._principals = {t.id: _principal_of(t) for t in directory.tokens.values()}
            self._directory = directory
        else:
            self._directory = replace(self._directory, now_ms=now_ms)
        # From before it was asked: what changed later is not in it.
        self._read_at_s = asked_at_s

    async def _follow(self) -> None:
        while True:
            self._woken.clear()
            with contextlib.suppress(JqmasterError):  # it is asked again, and old copies are not trusted
                await self.reload()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(until_tick_s(self._clock.monotonic_s(), POLL_S)):
                    await self._woken.wait()

    async def _note_uses(self) -> None:
        while True:
            await asyncio.sleep(NOTE_USES_S)
            with contextlib.suppress(JqmasterError):  # best effort, with the next minute's
                await self._flush_uses()
                await self._store.close_access_folds()

    async def _flush_uses(self) -> None:
        used_ms = dict(self._used_ms)
        await self._store.note_uses(used_ms)
        for token_id, ms in used_ms.items():
            if self._used_ms.get(token_id) == ms:
                del self._used_ms[token_id]

    @property
    def has_any(self) -> bool:
        """Return whether there is a token or user, as far as is known."""
        return bool(self._directory.tokens or self._directory.user_count)

    @property
    def has_users(self) -> bool:
        """Return whether somebody can log in by name and password."""
        return self._directory.user_count > 0

    def find(self, token: bytes) -> Principal | None:
        """Return the caller with this token; None if the token is not valid. No round trip.

        Raises StoreUnavailableError where it cannot be told whether it was revoked.
        """
        digest = digest_of(token)
        if (principal := self._configured.find(digest)) is not None:
            return principal
        token_id = token_id_of(token.decode("latin-1"))
        if token_id is None:
            return None
        age_s = self._clock.monotonic_s() - self._read_at_s
        if age_s > TRUSTED_S:
            self.wake()
            raise StoreUnavailableError("the token cannot be checked at this moment", retry_after_s=1.0)
        stored = self._directory.tokens.get(token_id)
        if stored is None or not hmac.compare_digest(stored.digest, digest):
            return None
        now_ms = self._directory.now_ms + round(age_s * 1000)
        if stored.is_expired(now_ms):
            return None
        self._used_ms[token_id] = now_ms
        return self._principals[token_id]

    # --- sessions

    async def login(
        self, name: str, password: str, *, address: str, replaces: str | None, device: str | None = None
    ) -> tuple[str, str]:
        """Log in, and return the cookies for the browser: one for this session, and one for good, as `device`. `address`: of the caller; `replaces`,
        `device`: what it kept before.

        Raises UnauthorizedError, and RateLimitedError after too many failures; those of others do not count where the
        user has logged in on this device before. How long it takes does not tell whether the user exists already.
        """
        user, caller = await self._store.user(name), caller_of(address)
        is_known = user is not None and devices.is_known(device, name, user.password)
        with self._passwords.place(caller, is_trusted=is_known):
            counted = (_counted(f"device {device}"), "") if is_known else (_counted(caller), _counted(name))
            # Not before there is a place for it: what is not judged is no failure.
            await self._count(*counted, is_known=is_known)
            is_right = await self._passwords.check(user.password if user else None, password)
        if user is None or not is_right or user.is_disabled:
            logger.warning("a login was refused (user %.64r, from %s)", name, address)
            # A name that is nobody's is not written down: people type passwords there.
            await self._log_refused(f"user:{user.name}" if user else "unknown", "password", address)
            raise UnauthorizedError("the user name or the password is wrong", code="login_failed")
        secret = await self._open(
            f"user:{user.name}",
            user.stored,
            {"role": str(user.role), "address": address},
            counted=counted,
            replaces=replaces,
        )
        return secret, device if device and is_known else devices.make(name, user.password)

    async def login_by_token(self, token: str, *, address: str, replaces: str | None) -> str:
        """As `login`. A valid token is let in whatever failed before: nobody finds one by trying."""
        encoded = token.encode()
        try:
            principal = self.find(encoded)
        except StoreUnavailableError:
            await self.reload()
            principal = self.find(encoded)
        if principal is None:
            await self._count(_counted(caller_of(address)), "")
            logger.warning("a login by token was refused (from %s)", address)
            await self._log_refused("unknown", "token", address)
            raise UnauthorizedError("the token is not valid", code="login_failed")
        token_id = token_id_of(token)
        stored = self._directory.tokens.get(token_id) if token_id else None
        if stored is not None and principal.name == f"token:{stored.id}":
            subject, proved = principal.name, stored.encode()
        else:
            subject, proved = f"config:{digest_of(encoded).hex()}", b""
        return await self._open(
            subject,
            proved,
            {"scopes": sorted(principal.scopes), "address": address},
            who=principal.name,
            counted=("", ""),
            replaces=replaces,
        )

    async def session(self, secret: str) -> Session | None:
        """Return the session of a browser that keeps `secret`; None if it is over, or its owner may no longer call."""
        if len(secret) != _SECRET_LENGTH or not secret.isascii():
            return None
        found = await self._store.use_session(
            _session_digest(secret), idle_ms=self._policy.current.session_idle_ms
        )
        if found is None:
            return None
        kind, _, name = found.subject.partition(":")
        principal: Principal | None = None
        if kind == "user":
            user = StoredUser.decode(name, found.credential) if found.credential else None
            if user is not None and not user.is_disabled:
                principal = Principal(found.subject, ROLE_SCOPES[user.role])
        elif kind == "token":
            token = StoredToken.decode(name, found.credential) if found.credential else None
            age_ms = round((self._clock.monotonic_s() - self._read_at_s) * 1000)
            if token is not None and not token.is_expired(self._directory.now_ms + age_ms):
                principal = _principal_of(token)
        else:
            principal = self._configured.find(bytes.fromhex(name))
        if principal is None:
            return None
        return Session(
            principal,
            role_of(principal.scopes),
            found.until_ms,
            csrf_token_of(secret),
            found.subject,
            _session_digest(secret),
        )

    async def own_sessions(self, session: Session) -> list[ListedSession]:
        """Return all logins of the one who is logged in."""
        return await self._store.sessions(session.subject)

    async def end_own(self, session: Session, session_id: str | None) -> None:
        """End one login of the one who is logged in, or all others. Raise NotFoundError."""
        found = await self._store.sessions(session.subject)
        digests = [
            one.digest
            for one in found
            if (one.digest != session.digest if session_id is None else session_id_of(one) == session_id)
        ]
        if session_id is not None and not digests:
            raise NotFoundError(f"no session {session_id[:64]}", code="unknown_session")
        if digests:
            who = session.principal.name
            entry = _entry(who, "session.end", who, None, {"ended": len(digests)})
            await self._store.end_sessions(session.subject, digests, access_entry=entry, is_own=True)

    async def end_sessions_of(self, name: str, who: str) -> int:
        """End all logins of a user; return how many there were. Raise NotFoundError."""
        await self._get_user(name)
        entry = _entry(who, "session.end", f"user:{name}", None, {"ended": "all"})
        return await self._store.end_sessions(f"user:{name}", (), access_entry=entry, is_own=False)

    async def change_own_password(self, session: Session, old: str, new: str, *, address: str) -> None:
        """Give a user who is logged in another password, and end the user's other logins.

        Raises ForbiddenError (`not_a_user`, `wrong_password`), InvalidError, RateLimitedError.
        """
        kind, _, name = session.subject.partition(":")
        if kind != "user":
            raise ForbiddenError("only users have passwords", code="not_a_user")
        # A stolen session must not be good for guessing the password.
        before = await self._get_user(name)
        with self._passwords.place(caller_of(address), is_trusted=True):
            await self._count(_counted(f"session {session.digest}"), "", is_known=True)
            is_right = await self._passwords.check(before.password, old)
        if not is_right:
            await self._log_refused(session.subject, "password", address)
            raise ForbiddenError("the current password is wrong", code="wrong_password")
        _check_password(new, name, "new_password")
        after = replace(before, password=await self._passwords.hash(new))
        audited = _audited_user(before)
        entry = _entry(session.subject, "user.change", name, audited, audited | {"password": "changed"})
        await self._put_user(name, before, after, entry, kept_session=session.digest)

    async def logout(self, secret: str, who: str) -> None:
        """End the session, so that its cookie is no longer accepted."""
        entry = _entry(who, "session.logout", who, None, None)
        await self._store.end_session(_session_digest(secret), access_entry=entry)

    async def _log_refused(self, who: str, by: str, address: str) -> None:
        after = {"by": by, "address": address}
        await self._store.log_refused_login(f"{by} {who}", _entry(who, "session.refused", who, None, after))

    async def _count(self, address: str, user: str, *, is_known: bool = False) -> None:
        most = self._policy.current.login_attempts
        wait_ms = await self._store.count_login(
            address, user, most_of_address=most * (1 if is_known else _ADDRESS_SHARE), most_of_user=most
        )
        if wait_ms:
            raise RateLimitedError(
                "too many failed logins; wait a moment", code="too_many_logins", retry_after_s=wait_ms / 1000
            )

    async def _open(
        self,
        subject: str,
        proved: bytes,
        after: dict[str, Any],
        *,
        counted: tuple[str, str],
        replaces: str | None,
        who: str | None = None,
    ) -> str:
        secret = secrets.token_urlsafe(32)
        name = who or subject
        until_ms = await self._store.open_session(
            _session_digest(secret),
            subject,
            proved,
            idle_ms=self._policy.current.session_idle_ms,
            life_ms=self._policy.current.session_life_ms,
            old_digest=_session_digest(replaces) if replaces else "",
            address=counted[0],
            counted_user=counted[1],
            place=after["address"],
            access_entry=_entry(name, "session.login", name, None, after),
        )
        if until_ms is None:
            raise UnauthorizedError("the user name or the password is wrong", code="login_failed")
        return secret

    # --- tokens

    async def tokens(self) -> list[ListedToken]:
        """Return all tokens, newest first."""
        await self.reload()
        uses = {**await self._store.token_uses(), **self._used_ms}
        tokens = sorted(self._directory.tokens.values(), key=lambda t: (-t.created_at_ms, t.id))
        return [ListedToken(token, uses.get(token.id)) for token in tokens]

    async def create_token(
        self,
        *,
        label: str,
        scopes: Sequence[Scope],
        names: Sequence[str],
        ttl_ms: int | None,
        expires_at_ms: int | None,
        who: str,
    ) -> tuple[str, StoredToken]:
        """Create a token; return it, which is the only time, and its entry. Raise InvalidError, ConflictError (`too_many_tokens`,
        `first_must_be_admin`)."""
        await self.reload()
        if names and not set(scopes) <= {Scope.PUSH, Scope.WORK}:
            raise InvalidError(
                "names can be given only to tokens whose scopes are push, work or both",
                errors=[FieldError(("names",), "allowed only with the scopes push and work")],
            )
        for index, pattern in enumerate(names):
            try:
                compile_glob(pattern)
            except ValueError as exc:
                raise invalid([FieldError(("names", index), str(exc))]) from None
        if ttl_ms is not None:
            expires_at_ms = self._directory.now_ms + ttl_ms
        if expires_at_ms is not None and expires_at_ms <= self._directory.now_ms:
            raise invalid([FieldError(("expires_at",), "must lie in the future")])
        lasts = expires_at_ms is None
        self._check_first(is_admin=Scope.ADMIN in scopes and lasts)
        text, token = self._new_token(label, frozenset(scopes), tuple(names), expires_at_ms, who)
        entry = _entry(who, "token.create", token.id, None, _audited_token(token))
        forgotten: list[tuple[str, StoredToken | None, StoredToken | None]] = [
            (old.id, old, None)
            for old in self._directory.tokens.values()
            if old.is_expired(self._directory.now_ms - KEEP_EXPIRED_MS)
        ]
        await self._put_tokens([(token.id, None, token), *forgotten[:100]], entry)
        return text, token

    async def rotate_token(self, token_id: str, *, overlap_ms: int, who: str) -> tuple[str, StoredToken]:
        """Another token for the same; the old one goes on for `overlap_ms`. The new one lives as long as the old one was
        meant to. Raise NotFoundError, ConflictError."""
        await self.reload()
        old = self._get_token(token_id)
        now_ms = self._directory.now_ms
        if old.is_expired(now_ms):
            raise ConflictError("the token has expired; create a new one", code="token_expired")
        expires_at_ms = None if old.expires_at_ms is None else now_ms + old.expires_at_ms - old.created_at_ms
        text, token = self._new_token(old.label, old.scopes, old.names, expires_at_ms, who)
        token = replace(token, lineage=old.lineage or old.id)
        ends_ms = min(now_ms + overlap_ms, old.expires_at_ms or now_ms + overlap_ms)
        entry = _entry(
            who, "token.rotate", old.id, _audited_token(old), _audited_token(token) | {"id": token.id}
        )
        ended = replace(old, expires_at_ms=ends_ms) if overlap_ms else None
        await self._put_tokens([(token.id, None, token), (old.id, old, ended)], entry)
        return text, token

    async def revoke_token(self, token_id: str, who: str) -> None:
        """In force here at once, on other masters as soon as they hear of it, at the latest after `TRUSTED_S`. Raises
        NotFoundError, ConflictError (`last_admin`)."""
        await self.reload()
        old = self._get_token(token_id)
        await self._check_last(without_token=token_id)
        entry = _entry(who, "token.revoke", old.id, _audited_token(old), None)
        await self._put_tokens([(old.id, old, None)], entry)

    def _new_token(
        self,
        label: str,
        scopes: frozenset[Scope],
        names: tuple[str, ...],
        expires_at_ms: int | None,
        who: str,
    ) -> tuple[str, StoredToken]:
        made = make_token(scopes)
        now_ms = self._directory.now_ms
        return made.text, StoredToken(made.id, label, scopes, names, made.digest, now_ms, who, expires_at_ms)

    def _get_token(self, token_id: str) -> StoredToken:
        token = self._directory.tokens.get(token_id)
        if token is None:
            raise NotFoundError(f"no token {token_id[:64]}", code="unknown_token")
        return token

    async def _put_tokens(
        self, changes: Sequence[tuple[str, StoredToken | None, StoredToken | None]], entry: bytes
    ) -> None:
        word = await self._store.put_tokens(changes, access_entry=entry)
        if word == "full":
            raise ConflictError("there are too many tokens; revoke some", code="too_many_tokens")
        if word == "changed":
            raise ConflictError(
                "another caller changed it at the same time; read it again", code="changed_meanwhile"
            )
        await self._reload_after()

    # --- users

    async def users(self) -> list[tuple[StoredUser, int | None]]:
        """Return all users by name, with the last login of each."""
        return await self._store.users()

    async def create_user(self, name: str, password: str, role: Role, *, who: str) -> StoredUser:
        """Add a user. Raise ConflictError (`user_exists`, `too_many_users`, `first_must_be_admin`)."""
        await self.reload()
        self._check_first(is_admin=role is Role.ADMIN)
        _check_password(password, name)
        hashed = await self._passwords.hash(password)
        user = StoredUser(name, role, hashed, self._directory.now_ms)
        entry = _entry(who, "user.add", name, None, _audited_user(user))
        match await self._store.put_user(name, None, user, access_entry=entry):
            case "full":
                raise ConflictError("there are too many users; remove some", code="too_many_users")
            case "changed":
                raise ConflictError("the user exists already", code="user_exists")
        await self._reload_after()
        return user

    async def change_user(
        self,
        name: str,
        *,
        role: Role | None = None,
        password: str | None = None,
        is_disabled: bool | None = None,
        who: str,
    ) -> tuple[StoredUser, int | None]:
        """Change a user, and return it with the last login. None: unchanged. Ends the user's sessions. Raise NotFoundError, ConflictError
        (`last_admin`)."""
        before = await self._get_user(name)
        last_login_ms = await self._store.last_login_ms(name)
        after = before
        if role is not None:
            after = replace(after, role=role)
        if is_disabled is not None:
            after = replace(after, is_disabled=is_disabled)
        if password is not None:
            _check_password(password, name)
            after = replace(after, password=await self._passwords.hash(password))
        await self._check_last(without_user=name, changed=after)
        audited = _audited_user(after) | ({"password": "changed"} if password is not None else {})
        entry = _entry(who, "user.change", name, _audited_user(before), audited)
        await self._put_user(name, before, after, entry)
        return after, last_login_ms

    async def remove_user(self, name: str, who: str) -> None:
        """Remove a user and end its sessions. Raise NotFoundError, ConflictError (`last_admin`)."""
        before = await self._get_user(name)
        await self._check_last(without_user=name)
        entry = _entry(who, "user.remove", name, _audited_user(before), None)
        await self._put_user(name, before, None, entry)

    async def _get_user(self, name: str) -> StoredUser:
        user = await self._store.user(name)
        if user is None:
            raise NotFoundError(f"no user {name[:64]}", code="unknown_user")
        return user

    async def _put_user(
        self,
        name: str,
        before: StoredUser,
        after: StoredUser | None,
        entry: bytes,
        *,
        kept_session: str = "",
    ) -> None:
        word = await self._store.put_user(name, before, after, access_entry=entry, kept_session=kept_session)
        if word != "ok":
            raise ConflictError(
                "another caller changed it at the same time; read it again", code="changed_meanwhile"
            )
        await self._reload_after()

    # --- nobody shall lock everybody out

    def _check_first(self, *, is_admin: bool) -> None:
        if self._configured.is_empty and not self.has_any and not is_admin:
            raise ConflictError(
                "the first user or token must have admin rights and must not expire, because from then on every caller must log in",
                code="first_must_be_admin",
            )

    async def _check_last(
        self,
        *,
        without_user: str | None = None,
        without_token: str | None = None,
        changed: StoredUser | None = None,
    ) -> None:
        """Refuse to remove the last admin. Not atomic: two concurrent removals can both pass; a configured token helps then.
        `changed`: the user's new value."""
        if self._configured.have_admin:
            return
        await self.reload()
        tokens = list(self._directory.tokens.values())
        users = [user for user, _ in await self._store.users()]
        left_tokens = [token for token in tokens if token.id != without_token]
        left_users = [user for user in users if user.name != without_user]
        if changed:
            left_users.append(changed)
        is_open_then = (
            not left_tokens and not left_users and self._configured.is_empty and not self._is_exposed
        )
        if _has_admin(tokens, users) and not _has_admin(left_tokens, left_users) and not is_open_then:
            raise ConflictError(
                "this would leave no administrator: create another admin first", code="last_admin"
            )

    async def _reload_after(self) -> None:
        with contextlib.suppress(JqmasterError):  # it was done; the loop asks again
            await self.reload()


def _has_admin(tokens: Sequence[StoredToken], users: Sequence[StoredUser]) -> bool:
    return any(Scope.ADMIN in token.scopes and token.expires_at_ms is None for token in tokens) or any(
        user.role is Role.ADMIN and not user.is_disabled for user in users
    )


def session_id_of(session: ListedSession) -> str:
    """Name a session without telling what opens it."""
    return session.digest[:16]


def _check_password(password: str, user: str, field: str = "password") -> None:
    if fault := fault_of(password, user):
        raise InvalidError("the password is not acceptable", errors=[FieldError((field,), fault)])


def csrf_token_of(secret: str) -> str:
    """Known to whoever has the session, and to nobody who only can make a browser send it."""
    return hmac.new(secret.encode(), b"csrf", hashlib.sha256).hexdigest()


def _session_digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _counted(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


def _principal_of(token: StoredToken) -> Principal:
    lineage = f"token:{token.lineage}" if token.lineage else ""
    return Principal(f"token:{token.id}", with_implied(token.scopes), _name_test(token.names), lineage)


def _name_test(names: Sequence[str]) -> Callable[[str], bool] | None:
    if not names:
        return None
    tests = [compile_glob(pattern) for pattern in names]
    return lambda name: any(test(name) for test in tests)


def _entry(
    who: str, action: str, target: str, before: dict[str, Any] | None, after: dict[str, Any] | None
) -> bytes:
    return encode_entry(who=who, action=action, target=target, before=before, after=after)


def _audited_token(token: StoredToken) -> dict[str, Any]:
    return {
        "label": token.label,
        "scopes": sorted(token.scopes),
        "names": list(token.names),
        "expires_at_ms": token.expires_at_ms,
    }


def _audited_user(user: StoredUser) -> dict[str, Any]:
    return {"role": str(user.role), "is_disabled": user.is_disabled}
