"""A user and her sessions."""

from jqmaster.domain.identity.access import Role
from jqmaster.store.identity.audit import encode_entry
from jqmaster.store.identity.credentials import StoredUser
from jqmaster.store.identity.sessions import SessionStore

USER = StoredUser("ada", Role.ADMIN, "$argon2id$", 1)
IDLE_MS, LIFE_MS = 60_000, 600_000


async def opened(sessions: SessionStore, digest: str, user: StoredUser, place: str = "p") -> int | None:
    """Open a session for `user`, and return its latest possible end."""
    return await sessions.open(
        digest, "user:ada", user.stored, idle_ms=IDLE_MS, life_ms=LIFE_MS, old_digest="", address="x",
        counted_user="u", place=place, access_entry=refused(place),
    )  # fmt: skip


def refused(kind: str) -> bytes:
    """Return an entry for the access log."""
    return encode_entry(who=kind, action="session.refused", target=kind, before=None, after=None)
