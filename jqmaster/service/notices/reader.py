"""Reads notices, and the destinations of their messages."""

from dataclasses import dataclass

from jqmaster.domain.notices.incident import NoticeState
from jqmaster.domain.notices.notice import Destination
from jqmaster.service.notices.documents import unknown_notice
from jqmaster.store.notices.documents import StoredNotice
from jqmaster.store.notices.notices import NoticeStore


@dataclass(frozen=True, slots=True)
class ShownNotice:
    """A notice with its open incidents and its sent messages."""

    stored: StoredNotice
    state: NoticeState


class NoticeReader:
    """Reads notices. Methods raise what the store raises."""

    def __init__(self, store: NoticeStore) -> None:
        self._store = store

    async def all(self) -> list[ShownNotice]:
        """Return all notices, sorted by name."""
        read = await self._store.all()
        return [ShownNotice(stored, read.states[name].state) for name, stored in read.notices.items()]

    async def get(self, name: str) -> ShownNotice:
        """Return a notice. Raise NotFoundError."""
        stored, state = await self._store.get(name)
        if stored is None:
            raise unknown_notice(name)
        return ShownNotice(stored, state.state)

    async def destination(self, name: str, nid: str, place: int) -> Destination | None:
        """Return the destination at the position `place` of the notice with this name and the ID `nid`. None: the
        notice or the position no longer exists."""
        stored, _ = await self._store.get(name)
        if stored is None or stored.notice.nid != nid or not 0 <= place < len(stored.notice.to):
            return None
        return stored.notice.to[place]
