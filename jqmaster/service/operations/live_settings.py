"""The settings in force at this master: its configured settings, overridden by changes at run time."""

import asyncio
import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from pydantic import ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from jqmaster.clock import DueTime, SharedRests, until_tick_s, wait_for_event
from jqmaster.config import RULES, Settings
from jqmaster.domain.identity.access import Scope
from jqmaster.errors import ConflictError, FieldError, InvalidError, JqmasterError
from jqmaster.lifecycle import BackgroundLoops
from jqmaster.live_value import LiveValue
from jqmaster.service.operations.settings_catalog import CATALOG, RUNTIME, SettingInfo, plain
from jqmaster.store.identity.audit import encode_entry
from jqmaster.store.operations.settings import SettingsStore, StoredSettings
from worker_sdk.transport.suggestions import suggestion

logger = logging.getLogger(__name__)

# A message announces each change. If it is lost, the answer to a heartbeat of this master tells of it within a second.
# While no heartbeat is answered, the store is asked this often.
POLL_S: Final = 0.5
# How long an answer counts.
ANSWERED_S: Final = 2.0
# Maximum number of repeats, each because somebody changed the settings meanwhile.
MAX_REPEATS: Final = 10
AUDIT_TARGET: Final = "settings"
NO_CHANGES: Final = StoredSettings(0, {})

T = TypeVar("T")


class _Given(Settings):
    """Settings from arguments only, because the environment and the file may have changed since the start."""

    # Build the model at the first change of settings, not at each start.
    model_config = SettingsConfigDict(defer_build=True)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        *others: PydanticBaseSettingsSource,
        **named: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (init_settings,)


@dataclass(frozen=True, slots=True)
class LiveSetting:
    """One setting as operators see it; `source`: default, configured or runtime."""

    info: SettingInfo
    value: Any
    source: str


class LiveSettings:
    """Component. `current` is replaced as a whole, together with everything derived from it, so read it at
    each use and keep no part of it."""

    def __init__(
        self, configured: Settings, store: SettingsStore, *, rests: SharedRests | None = None
    ) -> None:
        self.current = self._configured = configured
        self._store = store
        self._stored = NO_CHANGES
        self._followers: list[Callable[[Settings], None]] = []
        # The version of the targets, which comes with that of the settings.
        self.targets_version = 0
        self._target_followers: list[Callable[[], None]] = []
        # So does the version of the namespaces.
        self._namespaces_version = 0
        self._namespace_followers: list[Callable[[], None]] = []
        self._wake = asyncio.Event()
        self._rests = rests or SharedRests()
        # When the last answer that told the store's versions counts no longer.
        self._untold = DueTime()
        self._loops = BackgroundLoops("settings", is_vital=True)

    @property
    def version(self) -> int:
        """Return the version of the changes in force. 0: none."""
        return self._stored.version

    async def start(self) -> None:
        """Read the changes. Best effort: if the store is away, the loop asks it again."""
        await self._look()
        self._loops.spawn("look", self._watch)

    async def stop(self) -> None:
        await self._loops.stop()

    def follow(self, obey: Callable[[Settings], None]) -> None:
        """Call `obey` with the settings at every change, for code that cannot read a live value."""
        self._followers.append(obey)

    def follow_targets(self, obey: Callable[[], None]) -> None:
        """Call `obey` when `targets_version` has changed."""
        self._target_followers.append(obey)

    def follow_namespaces(self, obey: Callable[[], None]) -> None:
        """Call `obey` when the registry of namespaces has a new version."""
        self._namespace_followers.append(obey)

    def derive(self, make: Callable[[Settings], T]) -> LiveValue[T]:
        """Return a live value that `make` computes from the settings in force, at every change."""
        value = LiveValue(make(self.current))

        def renew(settings: Settings) -> None:
            value.current = make(settings)

        self._followers.append(renew)
        return value

    def wake(self) -> None:
        """Make the loop read the store again, because settings have changed."""
        self._wake.set()

    def take_versions(self, versions: tuple[int, int, int]) -> None:
        """Take the `Versions` that are in the store now. Read what has changed."""
        self._untold.at_s = self._rests.now_s() + ANSWERED_S
        # Compare for inequality, because a restored store may have a lower version.
        if versions != (self._stored.version, self.targets_version, self._namespaces_version):
            self._wake.set()

    async def change(self, changes: Mapping[str, Any], who: str) -> None:
        """Change settings. They are in force here on return, and at the other masters within a second. None
        reverts a change.

        Raises InvalidError that names each field, ConflictError, and what `SettingsStore` raises.
        """
        _check_each(changes)
        for _ in range(MAX_REPEATS):
            stored = await self._store.load()
            known, _ = self._with(stored.values)
            values = _changed(stored.values, changes)
            # A stored value that is replaced here must not make every later change invalid.
            in_force = {key: plain(getattr(known, key)) for key in stored.values if key in RUNTIME}
            settings = self._checked(_changed(in_force, changes), changes)
            before = {key: plain(getattr(known, key)) for key in changes}
            after = {key: plain(getattr(settings, key)) for key in changes}
            if values == dict(stored.values):
                self._take(stored)
                return
            entry = encode_entry(
                who=who, action="settings.change", target=AUDIT_TARGET, before=before, after=after
            )
            is_access = any(CATALOG[key].change_scope is Scope.ADMIN for key in changes)
            if put := await self._store.put(stored.version, values, entry, is_access=is_access):
                self._take(put)
                return
        raise ConflictError("other callers keep changing the settings", code="settings_changing")

    def view(self) -> tuple[list[LiveSetting], int]:
        """Return every setting, and the version."""
        changed = {key for key in self._stored.values if key in CATALOG}
        views = []
        for key, info in CATALOG.items():
            value = None if info.is_secret else plain(getattr(self.current, key))
            source = "default"
            if key in changed and info.is_runtime:
                source = "runtime"
            elif key in self._configured.model_fields_set:
                source = "configured"
            views.append(LiveSetting(info, value, source))
        return views, self.version

    # --- following the store

    async def _watch(self) -> None:
        while True:
            if not self._is_untold():
                await self._rests.wait(self._wake, self._is_untold, due=self._untold)
            else:
                pause_s = until_tick_s(asyncio.get_running_loop().time(), POLL_S)
                if not await wait_for_event(self._wake, pause_s) and not self._is_untold():
                    continue
                self._wake.clear()
            await self._look()

    def _is_untold(self) -> bool:
        return self._rests.now_s() >= self._untold.at_s

    async def _look(self) -> None:
        try:
            versions = await self._store.versions()
            # Compare for inequality, because a restored store may have a lower version.
            if versions.settings != self.version:
                self._take(await self._store.load())
            if versions.targets != self.targets_version:
                self.targets_version = versions.targets
                for obey in self._target_followers:
                    obey()
            if versions.namespaces != self._namespaces_version:
                self._namespaces_version = versions.namespaces
                for obey in self._namespace_followers:
                    obey()
        except JqmasterError as exc:
            logger.warning("cannot look at the settings: %s", exc.detail)

    def _take(self, stored: StoredSettings) -> None:
        if stored == self._stored:
            return
        self._stored = stored
        settings, replaced = self._with(stored.values)
        for key in replaced:
            logger.warning(
                "setting %s was changed to %s, which this release does not allow or which does not fit the other "
                "settings; it is %s. Change it to a value that is allowed, or reset it: jqmaster settings reset %s",
                key,
                plain(stored.values[key]),
                plain(getattr(settings, key)),
                key,
            )
        changed = [key for key in CATALOG if getattr(settings, key) != getattr(self.current, key)]
        self.current = settings
        for key in changed:
            logger.info("setting %s is now %s", key, plain(getattr(settings, key)))
        if changed:
            for obey in self._followers:
                obey(settings)

    def _with(self, values: Mapping[str, Any]) -> tuple[Settings, list[str]]:
        """Return the configured settings with these stored values on top, and the names of values that had to be
        replaced, because another release wrote them. A number out of its bounds becomes the nearest allowed one. Values
        that do not fit together are lowered, or else left out."""
        known = {key: value for key, value in values.items() if key in RUNTIME}
        taken = {}
        for key, value in known.items():
            nearest = _nearest(CATALOG[key], value)
            if _fault(CATALOG[key], nearest) is None:
                taken[key] = nearest
        taken = self._consistent(taken)
        try:
            settings = self._merged(taken)
        except ValidationError:
            settings, taken = self._configured, {}
        return settings, [key for key, value in known.items() if key not in taken or taken[key] != value]

    def _consistent(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values, changed so that every rule holds together with the configured settings."""
        taken = dict(values)
        # A value that one rule lowers may need another one to be lowered.
        for _ in RULES:
            settings = self._configured.model_copy(update=taken)
            broken = next((rule for rule in RULES if not rule.holds(settings)), None)
            if broken is None:
                break
            fitted = broken.fitted(settings) if broken.fitted else {}
            if fitted and all(_fault(CATALOG[key], value) is None for key, value in fitted.items()):
                taken |= fitted
            else:
                taken = {key: value for key, value in taken.items() if key not in broken.fields}
        return taken

    def _merged(self, values: Mapping[str, Any]) -> Settings:
        """Return the merged settings. Raise ValidationError."""
        configured = {key: getattr(self._configured, key) for key in Settings.model_fields}
        return _Given(**{**configured, **values})

    def _checked(self, values: Mapping[str, Any], changes: Mapping[str, Any]) -> Settings:
        """Return the checked settings. Raise InvalidError."""
        known = {key: value for key, value in values.items() if key in CATALOG}
        try:
            return self._merged(known)
        except ValidationError as exc:
            faults = [
                FieldError((str(e["loc"][0]),), e["msg"].removeprefix("Value error, "))
                for e in exc.errors(include_url=False, include_input=False)
                if e["loc"]
            ]
        if not faults:
            # Each value is valid by itself, but they do not fit together.
            loose = self._configured.model_copy(update=known)
            faults = [
                FieldError((field,), rule.text)
                for rule in RULES
                if not rule.holds(loose)
                for field in rule.fields
                if field in changes or not changes.keys() & set(rule.fields)
            ]
        raise InvalidError("the settings are not valid", errors=faults)


def _changed(values: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values with the changes on top. None removes a value."""
    changed = {**values, **{key: plain(value) for key, value in changes.items()}}
    return {key: value for key, value in changed.items() if value is not None}


def _nearest(info: SettingInfo, value: Any) -> Any:
    """Return the number nearest to `value` within the bounds; other values unchanged."""
    if (
        info.type not in ("integer", "number")
        or not isinstance(value, int | float)
        or isinstance(value, bool)
    ):
        return value
    if info.minimum is not None and not info.is_above_minimum and value < info.minimum:
        return info.minimum
    return info.maximum if info.maximum is not None and value > info.maximum else value


def _check_each(changes: Mapping[str, Any]) -> None:
    faults = []
    for key, value in changes.items():
        info = CATALOG.get(key)
        if info is None:
            fault: str | None = f"there is no such setting{suggestion(key, RUNTIME)}"
        elif not info.is_runtime:
            fault = "it is read when a master starts; change its configuration, and start it anew"
        else:
            fault = None if value is None else _fault(info, value)
        if fault:
            faults.append(FieldError((key,), fault))
    if faults:
        raise InvalidError("the settings are not valid", errors=faults)


def _fault(info: SettingInfo, value: Any) -> str | None:
    """Return the fault of a single value."""
    match info.type:
        case "integer" if isinstance(value, bool) or not isinstance(value, int):
            return "must be an integer"
        case "number" if isinstance(value, bool) or not isinstance(value, int | float):
            return "must be a number"
        case "number" if not math.isfinite(value):
            return "must be finite"
        case "boolean" if not isinstance(value, bool):
            return "must be true or false"
        case "text" if not isinstance(value, str):
            return "must be text"
        case "list" if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            return "must be a list of texts"
        case "choice" if not isinstance(value, str) or value not in (info.choices or ()):
            return f"must be one of {', '.join(info.choices or ())}"
    if info.type in ("integer", "number"):
        low, high = info.minimum, info.maximum
        if low is not None and (value <= low if info.is_above_minimum else value < low):
            return f"must be {'more than' if info.is_above_minimum else 'at least'} {low}"
        if high is not None and value > high:
            return f"must be at most {high}"
    return None
