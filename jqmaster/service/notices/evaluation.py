"""Evaluates all notices, as the leader, and decides which messages to send."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from jqmaster.clock import Clock
from jqmaster.domain.ids import new_id
from jqmaster.domain.notices.conditions import CONDITIONS, When
from jqmaster.domain.notices.delivery import DeliveryFigures
from jqmaster.domain.notices.notice import (
    DEFAULT_NAME,
    Channel,
    Destination,
    Notice,
)
from jqmaster.errors import JqmasterError
from jqmaster.lifecycle import EntriesApart
from jqmaster.service.notices.findings import MatchableFinding, selected
from jqmaster.service.notices.lasting_conditions import LastingConditions
from jqmaster.service.notices.momentary_conditions import MomentaryConditions
from jqmaster.service.notices.sending import NoticeSender
from jqmaster.store.notices.documents import StoredState, encode_state
from jqmaster.store.notices.notices import DEFAULT_STATE, AllNotices, NoticeStore

logger = logging.getLogger(__name__)

POLL_S: Final = 2.0


class NoticeEvaluation:
    """Evaluates notices. One atomic write saves three things: the counts, the messages to send, and the watermarks up
    to which conditions were checked. So each finding counts exactly once, even if the process dies in between. Each
    message is then sent at least once, always under the same ID.

    `mail_to`: the recipients of mails about failed jobs while no notice exists. Methods raise what the store raises.
    """

    def __init__(
        self,
        store: NoticeStore,
        momentary: MomentaryConditions,
        lasting: LastingConditions,
        sender: NoticeSender,
        clock: Clock,
        *,
        figures: DeliveryFigures,
        mail_to: Sequence[str],
    ) -> None:
        self._store = store
        self._momentary = momentary
        self._lasting = lasting
        self._sender = sender
        self._clock = clock
        self._figures = figures
        self._default = (
            Notice(DEFAULT_NAME, DEFAULT_NAME, When.JOB_FAILED, (Destination(Channel.MAIL, tuple(mail_to)),))
            if mail_to
            else None
        )
        self._looked_at_s: dict[When, float] = {}
        self._apart = EntriesApart("notices")

    async def round(self, epoch: str) -> float:
        """Do one round, as the leader of `epoch`, and return the seconds until the next round. Raise
        StaleEpochError."""
        read = await self._store.all()
        notices = self._notices(read)
        if not notices and not read.watermarks.by_condition:
            return POLL_S
        self._apart.only(
            {f"{what} {key}" for key in notices for what in ("notice", "messages of")}
            | {f"condition {notice.when}" for notice, _ in notices.values()}
        )
        has_more, watermarks = False, dict(read.watermarks.by_condition)
        seen: dict[When, list[MatchableFinding]] = {}
        for when in {notice.when for notice, _ in notices.values()}:
            try:
                # If one condition fails, continue with the others.
                with self._apart.alone(f"condition {when}"):
                    found, is_whole = await self._look(when, read)
                    has_more = has_more or not is_whole
                    if found is not None:
                        seen[when] = found
            except JqmasterError as exc:
                logger.warning("cannot check the condition %s: %s", when, exc.detail)
        self._forget_watermarks(read, {notice.when for notice, _ in notices.values()})
        changed: dict[str, StoredState] = {}
        judged: dict[str, tuple[Notice, StoredState]] = {}
        for key, (notice, stored) in notices.items():
            with self._apart.alone(f"notice {key}"):
                before = encode_state("", stored)
                self._take(notice, stored, seen.get(notice.when), read.now_ms)
                if encode_state("", stored) != before:
                    changed[key] = stored
                judged[key] = (notice, stored)
        has_moved = read.watermarks.by_condition != watermarks
        if (changed or has_moved) and not await self._store.put_states(
            changed, read.watermarks if has_moved else None, epoch=epoch
        ):
            # Nothing was written, because somebody has changed a notice meanwhile. The next round begins at once and
            # counts the same findings.
            return 0.0
        await self._send(judged, epoch)
        return 0.0 if has_more else POLL_S

    def _notices(self, read: AllNotices) -> dict[str, tuple[Notice, StoredState]]:
        """Return the notices and their states, by the name under which the store has the state."""
        if not read.notices:
            return {DEFAULT_STATE: (self._default, read.default)} if self._default else {}
        return {name: (stored.notice, read.states[name]) for name, stored in read.notices.items()}

    async def _look(self, when: When, read: AllNotices) -> tuple[list[MatchableFinding] | None, bool]:
        """Return the findings of a condition, and whether these are all its findings. None: no check is due."""
        if CONDITIONS[when].is_lasting:
            return await self._lasting.look(when, read.now_ms), True
        now_s = self._clock.monotonic_s()
        if now_s < self._looked_at_s.get(when, -1e9) + CONDITIONS[when].every_s:
            return None, True
        look = await self._momentary.look(when, read.watermarks.by_condition.get(when), read.now_ms)
        self._looked_at_s[when] = now_s
        read.watermarks.by_condition[str(when)] = look.watermark
        return look.seen, not look.has_more

    @staticmethod
    def _forget_watermarks(read: AllNotices, wanted: set[When]) -> None:
        """Remove the watermarks of conditions that no notice has. Otherwise, a later notice would report old
        occurrences."""
        for name in [name for name in read.watermarks.by_condition if name not in wanted]:
            del read.watermarks.by_condition[name]

    @staticmethod
    def _take(
        notice: Notice, stored: StoredState, seen: Sequence[MatchableFinding] | None, now_ms: int
    ) -> None:
        incarnation = f"{notice.nid} {notice.when}"
        if stored.of != incarnation:
            stored.of = incarnation
            stored.state.incidents.clear()
        if seen is not None:
            found = selected(notice, seen)
            if notice.is_lasting:
                stored.state.look(notice, found, now_ms)
            else:
                stored.state.add(notice, found)
        due = stored.state.advance(notice, now_ms)
        stored.state.pending += [replace(message, id=new_id()) for message in due]

    async def _send(self, notices: Mapping[str, tuple[Notice, StoredState]], epoch: str) -> None:
        """Enqueue the deliveries of all pending messages, and record the messages as sent."""
        done: dict[str, StoredState] = {}
        for key, (notice, stored) in notices.items():
            with self._apart.alone(f"messages of {key}"):
                sent = [one for one in stored.state.pending if await self._sender.send(notice, one)]
                if sent:
                    stored.state.sent(sent)
                    self._figures.messages.update(str(one.kind) for one in sent)
                    done[key] = stored
        # If this write fails, the next round enqueues the same deliveries again. Their IDs are taken by then, so
        # nothing is sent twice.
        if done:
            await self._store.put_states(done, epoch=epoch)
