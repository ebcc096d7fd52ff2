"""The settings in force at this master: its configured settings, overridden by changes at run time. A namespace has the
settings of the installation, overridden by its own changes."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from pydantic import ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from jqmaster.clock import DueTime, SharedRests, WakeFlag, until_tick_s, wait_for_event
from jqmaster.config import RULES, Settings
from jqmaster.domain.identity.access import Scope
from jqmaster.errors import ConflictError, FieldError, InvalidError, JqmasterError
from jqmaster.lifecycle import BackgroundLoops
from jqmaster.live_value import LiveValue
from jqmaster.service.operations.setting_values import changed_values, check_each, fault_of, nearest_value
from jqmaster.service.operations.settings_catalog import (
    CATALOG,
    LOWERED_ONLY,
    OVERRIDABLE,
    RUNTIME,
    SettingInfo,
    plain,
)
from jqmaster.store.identity.audit import encode_entry
from jqmaster.store.operations.settings import SettingsStore, StoredSettings

logger = logging.getLogger(__name__)

# Interval at which the store is read while no heartbeat is answered. While heartbeats are answered, a message announces
# each change. If the message is lost, the answer to the next heartbeat shows the change within a second.
POLL_S: Final = 0.5
# How late the answer to a heartbeat may be before the store is read instead.
LATE_S: Final = 0.5
# Maximum number of times that a change is tried. A try fails only if somebody has changed the settings since they were
# read.
MAX_REPEATS: Final = 10
AUDIT_TARGET: Final = "settings"
NO_CHANGES: Final = StoredSettings(0, {})

T = TypeVar("T")


class _Given(Settings):
    """Settings that come only from arguments. The environment and the file are not read again, because they may have
    changed since the start."""

    # Build the model at the first change of settings, because most starts need none.
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
    """One setting as operators see it.

    * `source`: default, configured, runtime or namespace.
    * `reset_value`: the value after a reset.
    * `is_settable`: whether it can be changed here, at the installation or in this namespace.
    """

    info: SettingInfo
    value: Any
    source: str
    reset_value: Any
    is_settable: bool


class LiveSettings:
    """Component: follows changes of settings. `current` is replaced as a whole, together with everything derived from
    it. So read `current` at each use, and keep no part of it.

    `beneath`: the settings that the changes in the store override. For the installation, these are the configured
    settings. For a namespace, they are the live settings of the installation. A namespace follows their changes, and
    may override only some settings.

    `fresh`: the time until which `current` counts as up to date. Each answer to a heartbeat with unchanged versions
    moves it.
    """

    def __init__(
        self,
        beneath: "Settings | LiveSettings",
        store: SettingsStore,
        *,
        rests: SharedRests | None = None,
        namespace: str = "",
    ) -> None:
        self._installation = beneath if isinstance(beneath, LiveSettings) else None
        self._settable = OVERRIDABLE if self._installation else RUNTIME
        self._configured: Settings = beneath._configured if isinstance(beneath, LiveSettings) else beneath
        self._where, self._option = (
            (f" in namespace {namespace}", f" -n {namespace}") if namespace else ("", "")
        )
        self.current = self._beneath
        self._store = store
        self._stored = NO_CHANGES
        self._followers: list[Callable[[Settings], None]] = []
        # The version of the targets. It is read together with the version of the settings.
        self.targets_version = 0
        self._target_followers: list[Callable[[], None]] = []
        # The version of the registry of namespaces. It is read together with the version of the settings.
        self._namespaces_version = 0
        self._namespace_followers: list[Callable[[], None]] = []
        self._wake = WakeFlag()
        self._rests = rests or SharedRests()
        self.fresh = DueTime()
        self._loops = BackgroundLoops("settings", is_vital=True)

    @property
    def version(self) -> int:
        """Return the version of the changes in force. 0: nothing was changed."""
        return self._stored.version

    async def start(self) -> None:
        """Read the changes. Best effort: if the store is unreachable, the loop tries again later."""
        if self._installation:
            self._installation.follow(self._renew_on)
            self._renew()
        await self._look()
        self._loops.spawn("look", self._watch)

    async def stop(self) -> None:
        if self._installation:
            self._installation.unfollow(self._renew_on)
        await self._loops.stop()

    @property
    def _beneath(self) -> Settings:
        return self._installation.current if self._installation else self._configured

    def follow(self, obey: Callable[[Settings], None]) -> None:
        """Call `obey` with the settings after every change. Use this only for code that cannot read a live value."""
        self._followers.append(obey)

    def unfollow(self, obey: Callable[[Settings], None]) -> None:
        """Stop calling `obey`."""
        self._followers.remove(obey)

    def follow_targets(self, obey: Callable[[], None]) -> None:
        """Call `obey` when `targets_version` has changed."""
        self._target_followers.append(obey)

    def follow_namespaces(self, obey: Callable[[], None]) -> None:
        """Call `obey` when the registry of namespaces has a new version."""
        self._namespace_followers.append(obey)

    def derive(self, make: Callable[[Settings], T]) -> LiveValue[T]:
        """Return a live value that `make` computes from the settings in force. It is computed again at every change."""
        value = LiveValue(make(self.current))

        def renew(settings: Settings) -> None:
            value.current = make(settings)

        self._followers.append(renew)
        return value

    def wake(self) -> None:
        """Make the loop read the store again. Use this after a change of settings."""
        self._wake.set()

    def take_versions(self, versions: tuple[int, int, int]) -> bool:
        """Compare the versions in the store (see `Versions`) with the versions in force here. If they differ, make the
        loop read the changes. Return whether they are equal."""
        # Use `!=` instead of `>`, because a restored store may have a lower version.
        if versions != (self._stored.version, self.targets_version, self._namespaces_version):
            self._wake.set()
            return False
        return True

    async def change(self, changes: Mapping[str, Any], who: str) -> None:
        """Change settings. The changes are in force at this master on return, and at the other masters within a second.
        The value None resets a setting to the value beneath.

        Raise InvalidError, which names each field, ConflictError, and what `SettingsStore` raises.
        """
        check_each(changes, {key: self._info(key) for key in self._settable})
        for _ in range(MAX_REPEATS):
            stored = await self._store.load()
            known, _ = self._with(stored.values)
            values = changed_values(stored.values, changes)
            # Check the changes with the values in force instead of the stored values. Otherwise, a stored value that is
            # no longer valid would make every later change invalid, too.
            in_force = {
                key: plain(value)
                for key in self._settable
                if (value := getattr(known, key)) != getattr(self._beneath, key)
            }
            settings = self._checked(changed_values(in_force, changes), changes)
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
        """Return every setting, and the version of the changes in force."""
        beneath, views = self._beneath, []
        for key in CATALOG:
            info = self._info(key)
            value, reset_value = (
                None if info.is_secret else plain(getattr(settings, key))
                for settings in (self.current, beneath)
            )
            views.append(LiveSetting(info, value, self._source_of(key), reset_value, key in self._settable))
        return views, self.version

    def _info(self, key: str) -> SettingInfo:
        """Return the description of a setting, with the bounds that apply here."""
        info = CATALOG[key]
        if self._installation and key in LOWERED_ONLY:
            return replace(info, maximum=getattr(self._beneath, key))
        return info

    def _source_of(self, key: str) -> str:
        if key in self._stored.values and key in self._settable:
            return "namespace" if self._installation else "runtime"
        if self._installation:
            return self._installation._source_of(key)
        return "configured" if key in self._configured.model_fields_set else "default"

    # --- following the store

    async def _watch(self) -> None:
        while True:
            if not self._is_untold():
                await self._rests.wait(self._wake, self._is_untold, due=self.fresh)
            else:
                pause_s = until_tick_s(asyncio.get_running_loop().time(), POLL_S)
                if not await wait_for_event(self._wake, pause_s) and not self._is_untold():
                    continue
                self._wake.clear()
            await self._look()

    def _is_untold(self) -> bool:
        return self._rests.now_s() >= self.fresh.at_s + LATE_S

    async def _look(self) -> None:
        try:
            versions = await self._store.versions()
            # Use `!=` instead of `>`, because a restored store may have a lower version.
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
            logger.warning("cannot read the settings: %s", exc.detail)

    def _take(self, stored: StoredSettings) -> None:
        if stored == self._stored:
            return
        self._stored = stored
        for key in self._renew():
            logger.info("setting %s is now %s%s", key, plain(getattr(self.current, key)), self._where)

    def _renew_on(self, _beneath: Settings) -> None:
        self._renew()

    def _renew(self) -> list[str]:
        """Put the stored changes in force, on top of the settings beneath. Return the names of the settings that
        change."""
        settings, replaced = self._with(self._stored.values)
        for key in replaced:
            logger.warning(
                "setting %s was changed to %s%s, which this release does not allow or which does not fit the "
                "other settings; %s is used. Change it to an allowed value, or reset it: jqmaster settings "
                "reset %s%s",
                key,
                plain(self._stored.values[key]),
                self._where,
                plain(getattr(settings, key)),
                key,
                self._option,
            )
        changed = [key for key in CATALOG if getattr(settings, key) != getattr(self.current, key)]
        self.current = settings
        if changed:
            for obey in list(self._followers):
                obey(settings)
        return changed

    def _with(self, values: Mapping[str, Any]) -> tuple[Settings, list[str]]:
        """Return the settings beneath with these stored values on top, and the names of the values that had to be
        replaced. A stored value may have become invalid because another release wrote it, or because the settings
        beneath have changed. A number out of bounds becomes the nearest allowed number. Values that do not fit together
        are lowered if possible, and otherwise left out."""
        known = {key: value for key, value in values.items() if key in self._settable}
        if not known:
            # A namespace that overrides nothing shares the settings object of the installation.
            return self._beneath, []
        taken = {}
        for key, value in known.items():
            nearest = nearest_value(self._info(key), value)
            if fault_of(self._info(key), nearest) is None:
                taken[key] = nearest
        taken = self._consistent(taken)
        try:
            settings = self._merged(taken)
        except ValidationError:
            settings, taken = self._beneath, {}
        return settings, [key for key, value in known.items() if key not in taken or taken[key] != value]

    def _consistent(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values, changed so that they and the settings beneath together obey every rule."""
        taken = dict(values)
        # Check the rules again after each change, because a value that one rule lowers may break another rule.
        for _ in RULES:
            settings = self._beneath.model_copy(update=taken)
            broken = next((rule for rule in RULES if not rule.holds(settings)), None)
            if broken is None:
                break
            fitted = broken.fitted(settings) if broken.fitted else {}
            if fitted and all(fault_of(self._info(key), value) is None for key, value in fitted.items()):
                taken |= fitted
            else:
                taken = {key: value for key, value in taken.items() if key not in broken.fields}
        return taken

    def _merged(self, values: Mapping[str, Any]) -> Settings:
        """Return the settings beneath with these values on top. Raise ValidationError."""
        beneath = self._beneath
        return _Given(**{**{key: getattr(beneath, key) for key in Settings.model_fields}, **values})

    def _checked(self, values: Mapping[str, Any], changes: Mapping[str, Any]) -> Settings:
        """Return the settings beneath with these values on top. Raise InvalidError, which names the faulty fields."""
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
            # Each value is valid alone, so name the fields of the rules that the values break together.
            loose = self._beneath.model_copy(update=known)
            faults = [
                FieldError((field,), rule.text)
                for rule in RULES
                if not rule.holds(loose)
                for field in rule.fields
                if field in changes or not changes.keys() & set(rule.fields)
            ]
        raise InvalidError("the settings are not valid", errors=faults)
