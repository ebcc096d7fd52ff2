"""The settings of a namespace: those of the installation, overridden by its own."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from jqmaster.config import Settings
from jqmaster.errors import InvalidError
from jqmaster.service.operations.live_settings import LiveSettings
from jqmaster.service.operations.settings_catalog import CATALOG, LOWERED_ONLY, OVERRIDABLE, RUNTIME
from jqmaster.store.keys import Keys
from jqmaster.store.link.shard import Shard
from jqmaster.store.operations.settings import SettingsStore
from tests.support.each import for_each
from tests.support.store import StoreWorld

pytestmark = [pytest.mark.req("D29"), pytest.mark.req("D15")]


class Layers:
    """The settings of an installation and of its namespace `shop`, at one master."""

    def __init__(self, world: StoreWorld) -> None:
        configured = Settings(lease_ms=20_000, max_losses=4)
        own = Shard(world.shard.client, Keys(f"{world.shard.keys.tag}-shop"))
        self.own_store = SettingsStore(own)
        self.installation = LiveSettings(configured, SettingsStore(world.shard))
        self.shop = LiveSettings(self.installation, self.own_store, namespace="shop")

    def seen(self, *keys: str) -> list[tuple[Any, str, Any, bool]]:
        """Return value, origin, value after a reset, and whether it can be set, as the namespace shows them."""
        views = {view.info.key: view for view in self.shop.view()[0]}
        return [(v.value, v.source, v.reset_value, v.is_settable) for v in map(views.__getitem__, keys)]


@pytest.fixture
async def layers(world: StoreWorld) -> AsyncIterator[Layers]:
    one = Layers(world)
    await one.installation.start()
    await one.shop.start()
    yield one
    await one.shop.stop()
    await one.installation.stop()
    await world.shard.client.command("DEL", Keys(f"{world.shard.keys.tag}-shop").settings)
    await world.shard.client.command("DEL", Keys(f"{world.shard.keys.tag}-shop").audit)


async def test_a_namespace_has_the_settings_of_the_installation_until_it_overrides_them(
    layers: Layers,
) -> None:
    lease_s = layers.shop.derive(lambda s: s.lease_ms / 1000)
    assert layers.shop.current is layers.installation.current
    assert layers.seen("lease_ms", "max_push_jobs", "max_losses", "log_level") == [
        (20_000, "configured", 20_000, True),
        (200, "default", 200, True),
        (4, "configured", 4, True),
        ("info", "default", "info", False),
    ]
    await layers.shop.change({"lease_ms": 40_000, "max_push_jobs": 7}, "ada")
    assert (lease_s.current, layers.installation.current.lease_ms) == (40.0, 20_000)
    await layers.installation.change({"lease_ms": 30_000, "max_losses": 5}, "eve")
    # The overrides stay, and all else follows the installation.
    assert layers.seen("lease_ms", "max_push_jobs", "max_losses") == [
        (40_000, "namespace", 30_000, True),
        (7, "namespace", 200, True),
        (5, "runtime", 5, True),
    ]
    await layers.shop.change({"lease_ms": None}, "ada")
    assert lease_s.current == 30.0
    assert layers.seen("lease_ms", "max_push_jobs") == [
        (30_000, "runtime", 30_000, True),
        (7, "namespace", 200, True),
    ]
    await layers.installation.change({"lease_ms": None}, "eve")
    assert lease_s.current == 20.0


async def test_a_value_equal_to_that_of_the_installation_is_kept_when_that_changes(layers: Layers) -> None:
    await layers.shop.change({"max_losses": 4}, "ada")
    await layers.installation.change({"max_losses": 9}, "eve")
    assert layers.seen("max_losses") == [(4, "namespace", 9, True)]


async def test_a_namespace_that_is_served_no_longer_follows_nothing(layers: Layers) -> None:
    await layers.shop.stop()
    await layers.installation.change({"max_losses": 9}, "eve")
    assert layers.shop.current.max_losses == 4
    await layers.shop.start()
    assert layers.shop.current.max_losses == 9


@for_each(
    ("changes", "faults"),
    [
        ({"log_level": "debug"}, {"log_level": "this setting holds in all namespaces"}),
        ({"heartbeat_interval_s": 2, "lease_ms": 30_000}, {"heartbeat_interval_s": "change it for the installation"}),
        ({"redact_paths": None}, {"redact_paths": "without a namespace"}),
        ({"port": 1}, {"port": "read when a master starts"}),
        ({"lease_m": 1}, {"lease_m": "did you mean lease_ms"}),
        ({"lease_ms": 1}, {"lease_ms": "must be at least 500"}),
        ({"lease_ms": 2500, "offer_ms": 500}, {"lease_ms": "raise lease_ms or lower heartbeat_interval_s"}),
        ({"max_logs_bytes": 2_000_000}, {"max_logs_bytes": "max_log_bytes must"}),
        (
            {"max_logs_bytes": 68_719_476_736, "retention_succeeded_max": 100_001},
            {
                "max_logs_bytes": "must be at most 268435456, as at the installation",
                "retention_succeeded_max": "must be at most 100000, as at the installation",
            },
        ),
        ({"retention_failed_max": 100_000_001}, {"retention_failed_max": "must be at most 100000"}),
    ],
)  # fmt: skip
async def test_settings_that_a_namespace_cannot_have_are_refused_whole_and_named(
    layers: Layers, changes: dict[str, Any], faults: dict[str, str]
) -> None:
    with pytest.raises(InvalidError) as refused:
        await layers.shop.change({"max_losses": 8, **changes}, "ada")
    told = {str(one.loc[0]): one.msg for one in refused.value.errors}
    assert told.keys() == faults.keys()
    assert all(text in told[key] for key, text in faults.items()), told
    assert layers.shop.version == 0


async def test_an_override_that_fits_no_longer_gives_way_and_comes_back(
    layers: Layers, caplog: pytest.LogCaptureFixture
) -> None:
    await layers.shop.change({"lease_ms": 12_000, "max_losses": 8}, "ada")
    # The installation is not bound by its namespaces.
    await layers.installation.change({"heartbeat_interval_s": 5.0, "worker_stale_s": 15.0}, "eve")
    assert (layers.shop.current.lease_ms, layers.shop.current.max_losses) == (20_000, 8)
    assert "setting lease_ms was changed to 12000 in namespace shop" in caplog.text
    assert "jqmaster settings reset lease_ms -n shop" in caplog.text
    await layers.shop.change({"max_losses": 9}, "ada")
    await layers.installation.change({"heartbeat_interval_s": None}, "eve")
    assert (layers.shop.current.lease_ms, layers.shop.current.max_losses) == (12_000, 9)


async def test_values_that_had_to_give_way_do_not_hinder_later_changes(layers: Layers) -> None:
    await layers.shop.change({"max_logs_bytes": 5_000_000}, "ada")
    await layers.installation.change({"max_log_bytes": 8_000_000}, "eve")
    assert layers.shop.current.max_log_bytes == 5_000_000
    await layers.shop.change({"max_losses": 9}, "ada")
    assert layers.shop.current.max_losses == 9
    await layers.shop.change({"max_logs_bytes": None}, "ada")
    assert layers.shop.current.max_log_bytes == 8_000_000


async def test_settings_of_an_installation_that_became_a_namespace_count_as_far_as_namespaces_may_have_them(
    layers: Layers,
) -> None:
    former = {"lease_ms": 50_000, "log_level": "debug", "max_connections": 9}
    assert await layers.own_store.put(0, former, b"", is_access=False)
    await layers.shop.stop()
    await layers.shop.start()
    assert layers.seen("lease_ms", "log_level") == [
        (50_000, "namespace", 20_000, True),
        ("info", "default", "info", False),
    ]


async def test_a_namespace_keeps_no_more_in_the_store_that_it_shares_than_the_installation_allows(
    layers: Layers, caplog: pytest.LogCaptureFixture
) -> None:
    """Not with the rights of an operator of the namespace, and not by an override from before the installation's
    value was lowered."""
    for key in sorted(LOWERED_ONLY):
        too_much = getattr(layers.installation.current, key) + 1
        with pytest.raises(InvalidError):
            await layers.shop.change({key: too_much}, "ada")
    await layers.shop.change({"retention_succeeded_max": 90_000}, "ada")
    await layers.installation.change({"retention_succeeded_max": 500}, "eve")
    assert layers.shop.current.retention_succeeded_max == 500
    assert "setting retention_succeeded_max was changed to 90000 in namespace shop" in caplog.text
    (shown,) = (view for view in layers.shop.view()[0] if view.info.key == "retention_succeeded_max")
    assert (shown.value, shown.info.maximum) == (500, 500)
    await layers.installation.change({"retention_succeeded_max": None}, "eve")
    assert layers.shop.current.retention_succeeded_max == 90_000


def test_a_namespace_may_override_what_concerns_it_alone() -> None:
    assert OVERRIDABLE < RUNTIME
    assert not [key for key in OVERRIDABLE if CATALOG[key].group == "Access"]
