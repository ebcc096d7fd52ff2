"""Changes notices for operators: edits, mutes, acknowledges and tests them."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from jqmaster.domain.ids import new_id
from jqmaster.domain.notices.conditions import CONDITIONS
from jqmaster.domain.notices.incident import Message, MessageKind
from jqmaster.domain.notices.notice import Channel, Notice
from jqmaster.errors import FieldError, InvalidError, NotFoundError, OverloadedError, after_it_was_done
from jqmaster.net.webhook_secret import secret_bytes
from jqmaster.service.named_objects import ANYHOW, Precondition, Tries
from jqmaster.service.notices.documents import describe, draft_of, refusal, unknown_notice
from jqmaster.store.identity.audit import AuditStore, encode_entry
from jqmaster.store.named_documents import new_etag
from jqmaster.store.notices.documents import StoredNotice, StoredState
from jqmaster.store.notices.notices import NoticeStore

# Maximum number of test messages of a notice that wait to be sent.
MAX_PENDING_TESTS: Final = 5


class NoticeEditor:
    """Creates, changes, mutes, acknowledges, tests and removes notices.

    * `can_sign`, `can_mail`: whether this master can sign webhooks and send mail.
    * `is_of_installation`: whether these are the notices of the default namespace.

    Methods raise what the store raises."""

    def __init__(
        self,
        store: NoticeStore,
        audit: AuditStore,
        now_ms: Callable[[], Awaitable[int]],
        *,
        can_sign: bool,
        can_mail: bool,
        is_of_installation: bool,
    ) -> None:
        self._is_of_installation = is_of_installation
        self._store = store
        self._audit = audit
        self._now_ms = now_ms
        self._can_sign = can_sign
        self._can_mail = can_mail

    async def put(
        self, name: str, fields: Mapping[str, Any], *, who: str, demands: Precondition = ANYHOW
    ) -> bool:
        """Create or replace the notice, and return whether it is new. If nothing would change, write nothing. A
        destination that the caller sends back as it was shown keeps its value.

        Raise InvalidError, PreconditionFailedError, ConflictError if there are too many notices, and OverloadedError if
        other callers keep changing this notice.
        """
        tries = Tries("notice", name)
        while True:
            present = await tries.read(self._present, demands)
            old = present.notice if present else None
            draft = draft_of(name, fields, old.to if old else ())
            if CONDITIONS[draft.when].is_of_installation and not self._is_of_installation:
                raise refusal(
                    ("when",),
                    f"{draft.when} concerns the installation: create this notice at the path without a "
                    "namespace",
                )
            notice = replace(draft, nid=old.nid if old else new_etag())
            if notice == old:
                return False
            self._check_ways(notice)
            if await self._write(present, notice, who=who, action="notice.put"):
                return present is None

    async def mute(self, name: str, until_ms: int, *, who: str, demands: Precondition = ANYHOW) -> None:
        """Mute the notice until the time `until_ms`. 0: end the muting. Raise NotFoundError,
        PreconditionFailedError."""
        tries = Tries("notice", name)
        while True:
            present = await tries.read(self._present, demands)
            if present is None:
                raise unknown_notice(name)
            notice = replace(present.notice, muted_until_ms=until_ms)
            if notice == present.notice:
                return
            action = "notice.mute" if until_ms else "notice.unmute"
            if await self._write(present, notice, who=who, action=action):
                return

    async def delete(self, name: str, *, who: str, demands: Precondition = ANYHOW) -> None:
        """Remove the notice and its pending messages. Raise NotFoundError, PreconditionFailedError."""
        tries = Tries("notice", name)
        while True:
            present = await tries.read(self._present, demands)
            if present is None:
                raise unknown_notice(name)
            entry = encode_entry(
                who=who, action="notice.delete", target=name, before=describe(present.notice), after=None
            )
            if await self._store.put(name, present, None, entry):
                return

    async def acknowledge(self, name: str, key: str | None, *, who: str) -> int:
        """Acknowledge the open incidents of the notice, or only the incident with `key`. Until an acknowledged incident
        is over, no more messages are sent about it. Return the number of acknowledged incidents. Raise
        NotFoundError."""

        def change(stored: StoredState) -> int:
            open_ones = [one for one in stored.state.incidents.values() if key is None or one.key == key]
            if key is not None and not open_ones:
                raise NotFoundError("the notice has no such open incident", code="unknown_incident")
            for one in open_ones:
                one.acknowledged_by = who
            return len(open_ones)

        count = await self._remember(name, change)
        after = {"incidents": count, "key": key}
        with after_it_was_done():
            await self._audit.write(
                encode_entry(who=who, action="notice.acknowledge", target=name, before=None, after=after)
            )
        return count

    async def test(self, name: str, *, who: str) -> str:
        """Request a test message to all destinations, even if the notice is muted. Return the ID of the message. Raise
        NotFoundError, and OverloadedError while too many earlier test messages wait."""
        now_ms = await self._now_ms()
        message = Message(new_id(), MessageKind.TEST, now_ms, asked_by=who)

        def change(stored: StoredState) -> int:
            tests = sum(one.kind is MessageKind.TEST for one in stored.state.pending)
            if tests >= MAX_PENDING_TESTS:
                raise OverloadedError("earlier tests have not been sent yet", retry_after_s=5.0)
            stored.state.pending.append(message)
            return 1

        await self._remember(name, change)
        after = {"message_id": message.id}
        with after_it_was_done():
            await self._audit.write(
                encode_entry(who=who, action="notice.test", target=name, before=None, after=after)
            )
        return message.id

    async def _remember(self, name: str, change: Callable[[StoredState], int]) -> int:
        # The leader also changes the state, so a write may fail. Then read the state again.
        tries = Tries("notice", name)
        while True:
            tries.count()
            present, stored = await self._store.get(name)
            if present is None:
                raise unknown_notice(name)
            answer = change(stored)
            if await self._store.put_states({name: stored}):
                return answer

    async def _present(self, name: str) -> StoredNotice | None:
        present, _ = await self._store.get(name)
        return present

    async def _write(self, present: StoredNotice | None, notice: Notice, *, who: str, action: str) -> bool:
        """Write the change. Return False if somebody has changed the notice since it was read."""
        now_ms = await self._now_ms()
        new = StoredNotice(
            notice,
            new_etag(),
            present.created_at_ms if present else now_ms,
            now_ms,
            present.created_by if present else who,
        )
        entry = encode_entry(
            who=who,
            action=action,
            target=notice.name,
            before=describe(present.notice) if present else None,
            after=describe(notice),
        )
        return await self._store.put(notice.name, present, new, entry)

    def _check_ways(self, notice: Notice) -> None:
        """Raise InvalidError for a destination that no message could reach."""
        for n, one in enumerate(notice.to):
            at = ("to", n, str(one.channel))
            if one.channel is Channel.MAIL and not self._can_mail:
                rule = "the master has no smtp_url and mail_from"
                raise InvalidError(rule, code="mail_off", errors=[FieldError(at, rule)])
            if one.channel is not Channel.WEBHOOK:
                continue
            if one.secret:
                try:
                    secret_bytes(one.secret)
                except ValueError as exc:
                    raise refusal(("to", n, "secret"), str(exc)) from None
            elif not self._can_sign:
                rule = "give a secret: the master has no webhook_secrets to sign with"
                raise InvalidError(rule, code="webhooks_off", errors=[FieldError(at, rule)])
