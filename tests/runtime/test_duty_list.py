"""The list of the leader's duties is complete: a duty that is built and not started would do nothing, unnoticed."""

import importlib
import pkgutil
from pathlib import Path
from typing import Any

import pytest

from jqmaster.app.duties import LeaderDuties
from jqmaster.runtime import duties
from jqmaster.runtime.periodic_loop import LeaderLoop
from tests.support.master import master_on
from tests.support.server import StoreServer


def duty_classes(base: type[LeaderLoop] = LeaderLoop) -> set[type[LeaderLoop]]:
    """Return the classes of duties in the package of duties."""
    for module in pkgutil.iter_modules(duties.__path__):
        importlib.import_module(f"{duties.__name__}.{module.name}")
    found = {one for one in base.__subclasses__() if one.__module__.startswith(duties.__name__)}
    return found.union(*(duty_classes(one) for one in base.__subclasses__()))


async def test_every_class_of_duties_is_built_and_every_duty_that_is_built_is_started(
    store_server: StoreServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[LeaderLoop] = []
    listed: list[Any] = []
    make, list_them = LeaderLoop.__init__, LeaderDuties.components

    def init(self: LeaderLoop, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        built.append(self)

    def components(self: LeaderDuties) -> Any:
        found = list_them(self)
        listed.extend(found)
        parts = [one for one in vars(self).values() if hasattr(one, "start") and hasattr(one, "stop")]
        # The leader starts the duties, but is not one of them.
        assert [one for one in parts if one not in listed and one is not self._leader] == []
        return found

    monkeypatch.setattr(LeaderLoop, "__init__", init)
    monkeypatch.setattr(LeaderDuties, "components", components)
    optional = {
        "audit_export": str(tmp_path / "audit"),
        "log_archive_url": f"file://{tmp_path}",
        "fireworq_prefix": "/fireworq",
    }
    async with master_on(store_server.url, **optional):
        assert [one for one in built if one not in listed] == []
        assert {type(one) for one in built} == duty_classes()
