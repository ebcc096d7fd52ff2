"""`jqmaster masters` as operators use it: real command processes against real masters."""

from pathlib import Path

import pytest

from tests.api.operations.test_masters import CALM, follower_of
from tests.support import real_time
from tests.support.cli import Cli
from tests.support.master import master_on
from tests.support.server import StoreServer

pytestmark = [pytest.mark.system, pytest.mark.req("D3"), real_time.PROCESSES]


async def test_masters_are_listed_and_another_one_is_made_to_lead(
    store_server: StoreServer, tmp_path: Path
) -> None:
    async with (
        master_on(store_server.url, node_id="rack-1", **CALM) as (first, api),
        follower_of(store_server.url, first, node_id="rack-2", **CALM) as (second, _),
    ):
        cli = Cli(str(api.http.base_url), tmp_path)
        bare = await cli("masters")
        assert bare.code == 0
        for word in (first.id, "leader", "rack-1", second.id, "sub_leader", "rack-2"):
            assert word in bare.out
        listed = await cli("masters", "list", "--json")
        assert {(one["id"], one["role"]) for one in listed.lines()} == {
            (first.id, "leader"), (second.id, "sub_leader"),
        }  # fmt: skip
        assert (await cli("masters", "--json")).lines()[0].keys() == listed.lines()[0].keys()

        done = await cli("masters", "demote", first.id)
        assert (done.code, done.out) == (0, f"{second.id}  leads  {second.server.url}\n")
        assert second.shard.leader.leadership

        refused = await cli("masters", "demote", first.id)
        assert refused.code == 4
        assert "does not lead" in refused.err
        assert (await cli("masters", "demote", "nobody")).code == 3
        audit = await cli("audit", "--target", first.id, "--json")
        assert [entry["action"] for entry in audit.lines()] == ["master.demote"]


async def test_a_master_alone_is_not_demoted(store_server: StoreServer, tmp_path: Path) -> None:
    async with master_on(store_server.url, **CALM) as (master, api):
        refused = await Cli(str(api.http.base_url), tmp_path)("masters", "demote", master.id)
        assert refused.code == 4
        assert "no other master" in refused.err
        assert master.shard.leader.leadership
