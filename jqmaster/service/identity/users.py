"""Lists, creates, changes and removes users. Users log in by name and password."""

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from jqmaster.domain.identity.access import Role
from jqmaster.domain.identity.password_rules import fault_of
from jqmaster.errors import ConflictError, FieldError, InvalidError, NotFoundError
from jqmaster.service.identity.access_entries import audited_user, entry
from jqmaster.service.identity.admins import AdminGuard
from jqmaster.service.identity.directory import IdentityDirectory
from jqmaster.service.identity.passwords import Passwords
from jqmaster.store.identity.credentials import CredentialStore, StoredUser

NO_ROLES: Final[Mapping[str, Role]] = MappingProxyType({})


class UserService:
    """Manages users. Methods raise what the store raises."""

    def __init__(
        self, store: CredentialStore, directory: IdentityDirectory, admins: AdminGuard, passwords: Passwords
    ) -> None:
        self._store = store
        self._directory = directory
        self._admins = admins
        self._passwords = passwords

    async def all(self) -> list[tuple[StoredUser, int | None]]:
        """Return all users, sorted by name, each with the time of the last login. None: the user has never logged
        in."""
        return await self._store.users()

    async def create(
        self, name: str, password: str, role: Role, *, roles: Mapping[str, Role] = NO_ROLES, who: str
    ) -> StoredUser:
        """Create a user. `roles`: further roles by namespace. Raise ConflictError (`user_exists`, `too_many_users`,
        `first_must_be_admin`)."""
        await self._directory.reload()
        self._admins.check_first(is_admin=role is Role.ADMIN)
        check_password(password, name)
        hashed = await self._passwords.hash(password)
        user = StoredUser(name, role, hashed, self._directory.read_at_ms, roles=roles)
        access_entry = entry(who, "user.add", name, None, audited_user(user))
        match await self._store.put_user(name, None, user, access_entry=access_entry):
            case "full":
                raise ConflictError("there are too many users; remove some", code="too_many_users")
            case "changed":
                raise ConflictError("the user exists already", code="user_exists")
        await self._directory.reload_after_change()
        return user

    async def change(
        self,
        name: str,
        *,
        role: Role | None = None,
        roles: Mapping[str, Role] | None = None,
        password: str | None = None,
        is_disabled: bool | None = None,
        who: str,
    ) -> tuple[StoredUser, int | None]:
        """Change a user, and end the user's sessions. Return the user with the time of the last login. None leaves a
        value unchanged. Raise NotFoundError, ConflictError (`last_admin`)."""
        before = await self.get(name)
        last_login_ms = await self._store.last_login_ms(name)
        after = before
        if role is not None:
            after = dataclasses.replace(after, role=role)
        if roles is not None:
            after = dataclasses.replace(after, roles=roles)
        if is_disabled is not None:
            after = dataclasses.replace(after, is_disabled=is_disabled)
        if password is not None:
            check_password(password, name)
            after = dataclasses.replace(after, password=await self._passwords.hash(password))
        await self._admins.check_last(without_user=name, changed=after)
        audited = audited_user(after) | ({"password": "changed"} if password is not None else {})
        access_entry = entry(who, "user.change", name, audited_user(before), audited)
        await self.replace(name, before, after, access_entry)
        return after, last_login_ms

    async def remove(self, name: str, who: str) -> None:
        """Remove a user, and end the user's sessions. Raise NotFoundError, ConflictError (`last_admin`)."""
        before = await self.get(name)
        await self._admins.check_last(without_user=name)
        access_entry = entry(who, "user.remove", name, audited_user(before), None)
        await self.replace(name, before, None, access_entry)

    async def find(self, name: str) -> StoredUser | None:
        """Return the user of this name, or None if there is no such user."""
        return await self._store.user(name)

    async def get(self, name: str) -> StoredUser:
        """Return a user. Raise NotFoundError."""
        user = await self.find(name)
        if user is None:
            raise NotFoundError(f"no user {name[:64]}", code="unknown_user")
        return user

    async def replace(
        self,
        name: str,
        before: StoredUser,
        after: StoredUser | None,
        access_entry: bytes,
        *,
        kept_session: str = "",
    ) -> None:
        """Replace `before`, the stored version of a user, by `after`. None: remove the user. Raise ConflictError if
        somebody else has changed the user meanwhile."""
        word = await self._store.put_user(
            name, before, after, access_entry=access_entry, kept_session=kept_session
        )
        if word != "ok":
            raise ConflictError(
                "another caller changed the user at the same time; read it again", code="changed_meanwhile"
            )
        await self._directory.reload_after_change()


def check_password(password: str, user: str, field: str = "password") -> None:
    """Raise InvalidError if the password is too weak for this user."""
    if fault := fault_of(password, user):
        raise InvalidError("the password is not acceptable", errors=[FieldError((field,), fault)])
