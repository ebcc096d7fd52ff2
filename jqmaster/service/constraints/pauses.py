"""Begins pauses. A pause is a constraint that lets none of its jobs start: those of a name, with a tag, of another
constraint, or of one value of that constraint's key."""

import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from jqmaster.domain.constraints.constraint import PAUSE_PREFIX
from jqmaster.domain.constraints.limit_kinds import KINDS
from jqmaster.domain.content.content import ContentAccess
from jqmaster.service.constraints.cache import ConstraintCache
from jqmaster.service.constraints.editor import ConstraintEditor
from jqmaster.service.constraints.key_values import KeyValues, ValueId
from jqmaster.service.constraints.reader import AskedValue, no_key, unknown_constraint
from jqmaster.service.named_objects import Precondition
from jqmaster.store.constraints.documents import StoredConstraint

MAX_PAUSE_S: Final = 366 * 86_400


@dataclass(frozen=True, slots=True)
class PauseTarget:
    """The jobs to pause: those of a name, with a tag, or of a constraint. If a value is given, only the constraint's
    jobs with this value of its key."""

    job_name: str | None = None
    tag: str | None = None
    constraint: str | None = None
    value: AskedValue | ValueId | None = None


class Pauses:
    """Begins pauses. Each pause is a separate constraint, and deleting the constraint ends the pause."""

    def __init__(
        self,
        constraints: ConstraintCache,
        editor: ConstraintEditor,
        values: KeyValues,
        store_time_ms: Callable[[], Awaitable[int]],
    ) -> None:
        self._constraints = constraints
        self._editor = editor
        self._values = values
        self._store_time_ms = store_time_ms

    async def begin(
        self, target: PauseTarget, *, reason: str, duration_s: float | None, who: str, access: ContentAccess
    ) -> StoredConstraint:
        """Pause the jobs. If `duration_s` is given, the pause ends by itself after this time. Raise NotFoundError,
        InvalidError, and ForbiddenError for a value that the caller may not see."""
        fields: dict[str, Any] = {
            **{kind.name: kind.none for kind in KINDS},
            "enabled": True,
            "mode": "enforce",
            "matcher": await self._matcher(target, access),
            "key": None,
            "paused": True,
            "overrides": [],
            "reason": reason,
            "expires_at": None
            if duration_s is None
            else await self._store_time_ms() + round(duration_s * 1000),
        }
        name = PAUSE_PREFIX + os.urandom(4).hex()
        stored, _ = await self._editor.put(name, fields, who, access, Precondition(none_match=frozenset("*")))
        return stored

    async def _matcher(self, target: PauseTarget, access: ContentAccess) -> Mapping[str, Any]:
        if target.job_name is not None:
            return {"field": "name", "op": "eq", "value": target.job_name}
        if target.tag is not None:
            return {"field": "tags", "op": "eq", "value": target.tag}
        name = target.constraint or ""
        stored = (await self._constraints.reload()).named(name)
        if stored is None:
            raise unknown_constraint(name)
        constraint = stored.constraint
        if target.value is None:
            return constraint.matcher.document
        given = "value" if isinstance(target.value, AskedValue) else "value_id"
        if constraint.key is None:
            raise no_key((given,))
        access.check_path(constraint.key, (given,))
        value = (
            target.value.value
            if isinstance(target.value, AskedValue)
            else await self._values.find(constraint, target.value)
        )
        return {
            "all": [constraint.matcher.document, {"field": str(constraint.key), "op": "eq", "value": value}]
        }
