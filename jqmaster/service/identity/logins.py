"""Logins by password and by token, with limits on repeated attempts."""

import hashlib
import logging
import secrets
from dataclasses import replace
from typing import Any, Final

from jqmaster.domain.identity.access import digest_of, token_id_of
from jqmaster.domain.identity.caller import caller_of
from jqmaster.errors import ForbiddenError, RateLimitedError, StoreUnavailableError, UnauthorizedError
from jqmaster.live_value import LiveValue
from jqmaster.service.identity import devices
from jqmaster.service.identity.access_entries import audited_user, entry
from jqmaster.service.identity.directory import IdentityDirectory
from jqmaster.service.identity.passwords import Passwords
from jqmaster.service.identity.sessions import PROVIDER_PREFIX, LoginPolicy, Session, session_digest
from jqmaster.service.identity.users import UserService, check_password
from jqmaster.store.identity.logins import LoginStore
from jqmaster.store.identity.sessions import Grant, SessionStore

logger = logging.getLogger(__name__)

_ADDRESS_SHARE: Final = 3


class LoginService:
    """Opens sessions, and counts failed logins. Methods raise what the store raises."""

    def __init__(
        self,
        store: LoginStore,
        sessions: SessionStore,
        *,
        directory: IdentityDirectory,
        users: UserService,
        passwords: Passwords,
        policy: LiveValue[LoginPolicy],
    ) -> None:
        self._store = store
        self._sessions = sessions
        self._directory = directory
        self._users = users
        self._passwords = passwords
        self._policy = policy

    async def by_password(
        self, name: str, password: str, *, address: str, replaces: str | None, device: str | None = None
    ) -> tuple[str, str]:
        """Log in, and return two cookies for the browser: the cookie of the new session, and a permanent cookie for the
        device.

        * `address`: the caller's address.
        * `replaces`: the browser's earlier session cookie.
        * `device`: the browser's earlier device cookie.

        Raise UnauthorizedError, and RateLimitedError after too many failures. If the user has logged in on this device
        before, failures on other devices do not count. The duration of the call does not reveal whether the user
        exists.
        """
        user, caller = await self._users.find(name), caller_of(address)
        is_known = user is not None and devices.is_known(device, name, user.password)
        with self._passwords.place(caller, is_trusted=is_known):
            counted = (_counted(f"device {device}"), "") if is_known else (_counted(caller), _counted(name))
            # Count the login only once it has a place for the check. A login that is refused without a check has not
            # failed.
            await self._count(*counted, is_known=is_known)
            is_right = await self._passwords.check(user.password if user else None, password)
        if user is None or not is_right or user.is_disabled:
            logger.warning("a login was refused (user %.64r, from %s)", name, address)
            # Do not log an unknown name, because people sometimes type the password there.
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

    async def by_token(self, token: str, *, address: str, replaces: str | None) -> str:
        """Log in with a token, and return the cookie of the new session. A valid token is accepted even after too many
        failures, because nobody can guess a token. See `by_password` for the arguments and errors."""
        encoded = token.encode()
        try:
            principal = self._directory.find(encoded)
        except StoreUnavailableError:
            await self._directory.reload()
            principal = self._directory.find(encoded)
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

    async def count_attempt(self, address: str) -> None:
        """Count a login that a login provider will verify. Raise RateLimitedError after too many failures."""
        await self._count(_counted(caller_of(address)), "")

    async def by_provider(
        self,
        name: str,
        grant: Grant,
        id_token: str,
        after: dict[str, Any],
        *,
        state: str,
        replaces: str | None,
    ) -> str:
        """Open a session for a person whom a login provider has named, and return the cookie of the session. Raise
        UnauthorizedError (`login_expired`) if `state` was already used.

        * `after`: the content of the entry in the access log. It contains the caller's address.
        """
        if not await self._store.use_once(session_digest(state)):
            raise UnauthorizedError("this login has already been used", code="login_expired")
        return await self._open(
            f"{PROVIDER_PREFIX}{name}",
            b"",
            after,
            counted=(_counted(caller_of(after["address"])), ""),
            replaces=replaces,
            grant=grant,
            id_token=id_token,
        )

    async def refused(self, who: str, by: str, address: str, reason: str) -> None:
        """Log that a login by a provider was refused, for example because the person has no role here."""
        logger.warning("a login by %s was refused (%.80r, from %s): %s", by, who, address, reason)
        after = {"by": by, "address": address, "reason": reason}
        await self._store.log_refused(f"{by} {who}", entry(who, "session.refused", who, None, after))

    async def change_own_password(self, session: Session, old: str, new: str, *, address: str) -> None:
        """Change the password of the user of a session, and end the user's other sessions.

        Raise ForbiddenError (`not_a_user`, `wrong_password`), InvalidError, RateLimitedError.
        """
        kind, _, name = session.subject.partition(":")
        if kind != "user":
            raise ForbiddenError("only users have passwords", code="not_a_user")
        # Limit the number of checks for each session. Otherwise, somebody with a stolen session could guess the
        # password.
        before = await self._users.get(name)
        with self._passwords.place(caller_of(address), is_trusted=True):
            await self._count(_counted(f"session {session.digest}"), "", is_known=True)
            is_right = await self._passwords.check(before.password, old)
        if not is_right:
            await self._log_refused(session.subject, "password", address)
            raise ForbiddenError("the current password is wrong", code="wrong_password")
        check_password(new, name, "new_password")
        after = replace(before, password=await self._passwords.hash(new))
        audited = audited_user(before)
        access_entry = entry(session.subject, "user.change", name, audited, audited | {"password": "changed"})
        await self._users.replace(name, before, after, access_entry, kept_session=session.digest)

    async def _log_refused(self, who: str, by: str, address: str) -> None:
        after = {"by": by, "address": address}
        await self._store.log_refused(f"{by} {who}", entry(who, "session.refused", who, None, after))

    async def _count(self, address: str, user: str, *, is_known: bool = False) -> None:
        most = self._policy.current.login_attempts
        wait_ms = await self._store.count(
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
        grant: Grant | None = None,
        id_token: str = "",
    ) -> str:
        secret = secrets.token_urlsafe(32)
        name = who or subject
        until_ms = await self._sessions.open(
            session_digest(secret),
            subject,
            proved,
            idle_ms=self._policy.current.session_idle_ms,
            life_ms=self._policy.current.session_life_ms,
            old_digest=session_digest(replaces) if replaces else "",
            address=counted[0],
            counted_user=counted[1],
            place=after["address"],
            access_entry=entry(name, "session.login", name, None, after),
            granted=grant.encode() if grant else b"",
            id_token=id_token,
        )
        if until_ms is None:
            raise UnauthorizedError("the user name or the password is wrong", code="login_failed")
        return secret


def _counted(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()
