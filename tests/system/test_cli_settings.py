"""`jqmaster settings` as operators use it: real command processes against a real master."""

from pathlib import Path

import pytest

from tests.support import real_time
from tests.support.cli import Cli
from tests.support.master import master_on
from tests.support.server import StoreServer

pytestmark = [pytest.mark.system, pytest.mark.req("D15"), real_time.PROCESSES]


async def test_settings_are_listed_changed_and_taken_back(store_server: StoreServer, tmp_path: Path) -> None:
    async with master_on(store_server.url) as (master, api):
        cli = Cli(str(api.http.base_url), tmp_path)
        bare = await cli("settings")
        assert bare.code == 0
        for word in ("lease_ms", "1500 ms", "15000 ms", "500…600000", "configured", "redis_url", "(secret)"):
            assert word in bare.out
        assert store_server.url not in bare.out

        done = await cli("settings", "set", "lease_ms=4000", "log_level=warning")
        assert (done.code, done.out) == (0, "lease_ms  4000 ms  (runtime)\nlog_level  warning  (runtime)\n")
        assert master.live.current.lease_ms == 4000
        changed = await cli("settings", "list", "--changed", "--json")
        assert {(one["key"], one["value"]) for one in changed.lines()} == {
            ("lease_ms", 4000), ("log_level", "warning"),
        }  # fmt: skip

        refused = await cli("settings", "set", "lease_ms=600", "host=0.0.0.0", "log_level=info")
        assert refused.code == 2
        assert "host: this setting is read when a master starts" in refused.err
        refused = await cli("settings", "set", "lease_ms=600")
        assert refused.code == 2
        assert "lease_ms: offer_ms must be at most half of lease_ms" in refused.err
        assert (await cli("settings", "set", "lease_ms")).code == 2
        assert master.live.current.lease_ms == 4000

        done = await cli("settings", "reset", "lease_ms")
        assert (done.code, done.out) == (0, "lease_ms  1500 ms  (configured)\n")
        audit = await cli("audit", "--target", "settings", "--json")
        assert [entry["after"] for entry in audit.lines()] == [
            {"lease_ms": 1500}, {"lease_ms": 4000, "log_level": "warning"},
        ]  # fmt: skip
