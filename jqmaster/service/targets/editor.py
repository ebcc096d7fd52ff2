"""Changes targets for operators."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from jqmaster.domain.targets.target import HttpTarget
from jqmaster.domain.targets.target_set import TargetSet
from jqmaster.errors import ConflictError, FieldError
from jqmaster.service.named_objects import ANYHOW, Precondition, Tries
from jqmaster.service.targets.documents import describe, draft_of, unknown_target
from jqmaster.store.identity.audit import encode_entry
from jqmaster.store.named_documents import new_etag
from jqmaster.store.targets.documents import StoredTarget
from jqmaster.store.targets.targets import TargetStore


class TargetEditor:
    """Creates, changes and removes targets. Methods raise what the store raises."""

    def __init__(self, store: TargetStore, now_ms: Callable[[], Awaitable[int]]) -> None:
        self._store = store
        self._now_ms = now_ms

    async def put(
        self, name: str, fields: Mapping[str, Any], *, who: str, demands: Precondition = ANYHOW
    ) -> bool:
        """Create or replace the target, and return whether it is new. If nothing would change, write nothing. A request
        without a secret keeps the secret. A hidden value that the caller sends back as it was shown is kept, too.

        Raise one of these errors:

        * InvalidError, PreconditionFailedError,
        * ConflictError if there are too many targets, or another target lists one of the names,
        * OverloadedError if other callers keep changing this target.
        """
        tries = Tries("target", name)
        while True:
            present = await tries.read(self._store.get, demands)
            now_ms = await self._now_ms()
            target = draft_of(name, fields, present.target if present else None, now_ms)
            if present and target == present.target:
                return False
            await self._check_names(target)
            new = StoredTarget(
                target,
                new_etag(),
                present.created_at_ms if present else now_ms,
                now_ms,
                present.created_by if present else who,
            )
            entry = encode_entry(
                who=who,
                action="target.put",
                target=name,
                before=describe(present.target) if present else None,
                after=describe(target),
            )
            if await self._store.put(name, present, new, entry):
                return present is None

    async def delete(self, name: str, *, who: str, demands: Precondition = ANYHOW) -> None:
        """Remove the target. Requests in progress continue to their end. Raise NotFoundError,
        PreconditionFailedError."""
        tries = Tries("target", name)
        while True:
            present = await tries.read(self._store.get, demands)
            if present is None:
                raise unknown_target(name)
            entry = encode_entry(
                who=who, action="target.delete", target=name, before=describe(present.target), after=None
            )
            if await self._store.put(name, present, None, entry):
                return

    async def _check_names(self, target: HttpTarget) -> None:
        """Raise ConflictError if another target lists one of the names of this target."""
        stored = await self._store.load()
        others = TargetSet(one.target for one in stored.targets.values())
        if taken := others.other_with(target):
            name, other = taken
            rule = f"must not contain {name}, which target {other} serves; remove it there first"
            raise ConflictError(rule, code="target_name_taken", errors=[FieldError(("names",), rule)])
