"""Commands about namespaces, and commands in a namespace."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from jqmaster.app import Master
from jqmaster.cli.commands import namespaces
from jqmaster.cli.root import app
from jqmaster.store.keys import Keys
from jqmaster.store.link.client import StoreClient
from tests.support import real_time
from tests.support.master import forget, master_on
from tests.support.server import StoreServer, started
from tests.support.topology import Cluster
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.req("D29"), real_time.MASTER]


class Shell:
    """Runs commands in a thread, against one master."""

    def __init__(self, master: Master) -> None:
        self.url = master.server.url
        self.tag = f"{master.settings.shard}-shop"

    async def run(self, *words: str, stdin: str | None = None, **variables: str) -> Any:
        env = {"JQMASTER_URL": self.url, **variables}
        return await asyncio.to_thread(CliRunner().invoke, app, list(words), input=stdin, env=env)

    async def says(self, *words: str, **variables: str) -> str:
        """Return the output of a command that succeeds."""
        done = await self.run(*words, **variables)
        assert done.exit_code == 0, done.output
        return str(done.output)

    async def enqueue(self, *words: str, **variables: str) -> str:
        async def enqueued() -> str:
            done = await self.run("enqueue", "work", "--json", *words, **variables)
            return str(json.loads(done.stdout)["id"]) if done.exit_code == 0 else ""

        return str(await wait_until(enqueued, what="the namespace is served"))

    async def jobs(self, *words: str, **variables: str) -> list[str]:
        return [
            json.loads(line)["id"]
            for line in (await self.says("jobs", "--json", *words, **variables)).splitlines()
        ]


@pytest.fixture
async def shell(store_server: StoreServer, tmp_path: Path) -> AsyncIterator[Shell]:
    async with master_on(store_server.url, data_dir=tmp_path) as (master, _):
        one = Shell(master)
        yield one
    await forget(store_server.url, one.tag)


async def test_lists_and_why_take_all_namespaces_together(shell: Shell) -> None:
    await shell.says("namespaces", "create", "shop", "--tag", shell.tag)
    here, there = await shell.enqueue(), await shell.enqueue("-n", "shop")
    lines = (await shell.says("jobs", "-n", "*")).splitlines()
    assert [line.split()[:4] for line in lines] == [
        ["NAMESPACE", "ID", "NAME", "STATE"],
        ["default", here, "work", "ready"],
        ["shop", there, "work", "ready"],
    ]
    found = [json.loads(line) for line in (await shell.says("jobs", "--json", "-n", "*")).splitlines()]
    assert [(one["namespace"], one["id"]) for one in found] == [("default", here), ("shop", there)]
    workers = await shell.says("workers", JQMASTER_NAMESPACE="*")
    assert workers.startswith("NAMESPACE  ")
    # A job is found wherever it is.
    told = await shell.says("why", there, "-n", "*")
    assert told.startswith(f"In shop:\n{there} is ready")
    assert json.loads(await shell.says("why", there, "--json", "-n", "*"))["namespace"] == "shop"
    nowhere = await shell.run("why", "0199aaaa-0000-7000-8000-000000000000", "-n", "*")
    assert (nowhere.exit_code, nowhere.stderr) == (3, "Error: no open namespace has it\n")
    backlog = await shell.says("why", "-n", "*")
    assert re.findall(r"^In (\w+):$", backlog, re.MULTILINE) == ["default", "shop"]
    # Commands that change something, or show one object, take no '*'.
    for words in (("enqueue", "work"), ("constraints", "delete", "x"), ("job", here)):
        refused = await shell.run(*words, "-n", "*")
        assert refused.exit_code == 2, words
        assert "name one namespace" in refused.output
    elsewhere = await shell.run("jobs", "-n", "*", JQMASTER_URL=f"{shell.url}/ns/shop")
    assert elsewhere.exit_code == 2
    # One that is closed is left out.
    await shell.says("namespaces", "close", "shop")
    lines = (await shell.says("jobs", "-n", "*")).splitlines()
    assert [line.split()[0] for line in lines] == ["NAMESPACE", "default"]


async def test_a_namespace_that_cannot_answer_does_not_hide_the_others(
    store_server: StoreServer, tmp_path: Path
) -> None:
    other = StoreServer()
    with started(other):
        stores = {"b": {"redis_url": other.url}}
        async with master_on(store_server.url, data_dir=tmp_path, stores=stores, store_timeout_s=1.0) as (
            master,
            _,
        ):
            shell = Shell(master)
            await shell.says("namespaces", "create", "shop", "--tag", shell.tag, "--store", "b")
            here = await shell.enqueue()
            await shell.enqueue("-n", "shop")
            other.stop()

            async def is_missing() -> Any:
                done = await shell.run("jobs", "-n", "*")
                return done if done.exit_code != 0 else None

            done = await wait_until(is_missing, what="shop is away")
            assert done.exit_code == 5
            assert here in done.stdout
            assert "The namespace shop is missing" in done.stderr


async def test_a_namespace_from_its_creation_to_its_end(shell: Shell) -> None:
    created = await shell.says("namespaces", "create", "shop", "--tag", shell.tag, "--title", "The shop")
    assert created == f"shop  created  in store default, with the tag {shell.tag}\n"
    here, there = await shell.enqueue(), await shell.enqueue("-n", "shop")
    assert await shell.jobs() == await shell.jobs("--namespace", "default") == [here]
    # The variable stands for the option, and commands about namespaces do not need it.
    assert await shell.jobs(JQMASTER_NAMESPACE="shop") == [there]
    assert await shell.jobs("-n", "default", JQMASTER_NAMESPACE="shop") == [here]
    listed = (await shell.says("namespaces", "list", JQMASTER_NAMESPACE="shop")).splitlines()
    assert [line.split()[:3] for line in listed] == [
        ["NAME", "STATE", "STORE"], ["default", "open", "default"], ["shop", "open", "default"],
    ]  # fmt: skip
    set_quota = await shell.says("namespaces", "set", "shop", "--waiting-jobs", "9")
    assert set_quota == "shop  The shop  waiting jobs: 9\n"
    changed = await shell.says("namespaces", "set", "shop", "--title", "Shop", "--argument-bytes", "500")
    assert changed == "shop  Shop  waiting jobs: 9  argument bytes: 500\n"
    shown = json.loads(await shell.says("namespaces", "show", "shop", "--json"))
    quotas = {quota: most for quota, most in shown["quotas"].items() if most is not None}
    assert (shown["title"], quotas) == ("Shop", {"waiting_jobs": 9, "argument_bytes": 500})
    words = ["--waiting-jobs", "0", "--pushes-per-s", "50", "--waiting-bytes", "1000", "--workers", "3"]
    told = await shell.says("namespaces", "set", "shop", *words, "--streams", "2")
    assert told == (
        "shop  Shop  waiting bytes: 1000  pushes per s: 50  argument bytes: 500  workers: 3  streams: 2\n"
    )
    said = await shell.says("namespaces", "show", "shop")
    assert "quotas   waiting bytes: 1000  pushes per s: 50" in said
    zeros = [
        word
        for quota in quotas | dict.fromkeys(shown["quotas"])
        for word in (f"--{quota.replace('_', '-')}", "0")
    ]
    assert await shell.says("namespaces", "set", "shop", *zeros) == "shop  Shop  no quotas of its own\n"
    assert "default  single    Valkey" in await shell.says("namespaces", "stores")
    assert await shell.says("namespaces", "close", "shop") == "shop  closed\n"
    # The master has refused the job, and nothing is in doubt.
    refused = await shell.run("enqueue", "work", "-n", "shop")
    assert (refused.exit_code, "namespace_closed" in refused.output) == (5, True)
    assert "may have been enqueued" not in refused.output
    # The time of Retry-After is not shown, because the namespace stays closed.
    assert "To serve it again: jqmaster namespaces open shop\n" in refused.output
    assert "Try again" not in refused.output
    assert await shell.says("namespaces", "open", "shop") == "shop  open\n"
    await shell.says("namespaces", "close", "shop")
    refused = await shell.run("namespaces", "delete", "shop", "--confirm", "shop")
    assert "1 unfinished job:" in refused.output
    told = await shell.says("namespaces", "delete", "shop", "--confirm", "shop", "--force")
    back = f"jqmaster namespaces create shop --tag {shell.tag} --store default"
    assert told == (
        f"namespace shop deleted; its data stay in store default with the tag {shell.tag}\n"
        f"  A new namespace takes them over: {back}\n"
    )
    # The command that was shown brings the jobs back.
    await shell.says(*back.split()[1:])

    async def is_served() -> bool:
        return (await shell.run("jobs", "-n", "shop")).exit_code == 0

    await wait_until(is_served, what="shop is served again")
    assert await shell.jobs("-n", "shop") == [there]
    await shell.says("namespaces", "close", "shop")
    force = ("--confirm", "shop", "--force", "--json")
    assert json.loads(await shell.says("namespaces", "delete", "shop", *force)) == {
        "name": "shop", "deleted": True, "store": "default", "tag": shell.tag,
    }  # fmt: skip
    unknown = await shell.run("namespaces", "delete", "shop", *force)
    assert (unknown.exit_code, "unknown_namespace" in unknown.output) == (3, True)


async def test_an_entry_that_cannot_be_read_is_deleted_by_force(
    shell: Shell, store_server: StoreServer
) -> None:
    await shell.says("namespaces", "create", "shop", "--tag", shell.tag)
    client = StoreClient(store_server.url, connections=1)
    await client.redis.hset(Keys(shell.tag.removesuffix("-shop")).namespaces, "shop", "damaged")
    await client.close()
    told = await shell.says("namespaces", "delete", "shop", "--confirm", "shop", "--force")
    assert told == "the entry of namespace shop is deleted; its data stay in their store\n"


async def test_a_namespace_is_moved_and_tells_how_far(
    store_server: StoreServer, lone_server: StoreServer, tmp_path: Path
) -> None:
    other = StoreServer()
    with started(other):
        stores = {"b": {"redis_url": other.url}}
        async with master_on(store_server.url, data_dir=tmp_path, stores=stores) as (master, _):
            shell = Shell(master)
            await shell.says("namespaces", "create", "shop", "--tag", shell.tag)
            job_id = await shell.enqueue("-n", "shop")
            plan = await shell.says("namespaces", "move", "shop", "--to", "b", "--dry-run")
            assert re.fullmatch(
                r"shop  \d+ keys, 0\.\d MiB to store b; expected stop: 5 s; running jobs keep their leases\n",
                plan,
            )
            refused = await shell.run("namespaces", "abort-move", "shop")
            assert (refused.exit_code, "not_moving" in refused.output) == (4, True)
            moved = await shell.says("namespaces", "move", "shop", "--to", "b")
            assert moved.splitlines()[-1] == "shop  default to b: done"
            shown = json.loads(await shell.says("namespaces", "show", "shop", "--json"))
            assert (shown["store"], shown["move"]["step"]) == ("b", "done")
            said = (await shell.says("namespaces", "show", "shop")).splitlines()
            assert "quotas   no quotas of its own" in said
            assert f"move     default to b: done, at {shown['move']['ended_at']}" in said
            # Its document can be sent back as it was shown.
            assert "Shop" in await shell.says("namespaces", "set", "shop", "--title", "Shop")
            assert (await shell.enqueue("-n", "shop")) != job_id
            assert job_id in await shell.jobs("-n", "shop")
            # The audit log of the installation has all of it, and that of the namespace nothing.
            audited = (await shell.says("audit", "--target", "shop", "--json")).splitlines()
            assert [json.loads(line)["action"] for line in reversed(audited)] == [
                "namespace.put", "namespace.move", "namespace.moved", "namespace.put",
            ]  # fmt: skip
            assert await shell.says("audit", "--target", "shop", "--json", "-n", "shop") == ""
    await forget(store_server.url, shell.tag)


async def test_a_move_that_is_being_aborted_says_so(store_server: StoreServer, tmp_path: Path) -> None:
    other = StoreServer()
    with started(other):
        stores = {"b": {"redis_url": other.url}}
        async with master_on(store_server.url, data_dir=tmp_path, stores=stores) as (master, _):
            shell = Shell(master)
            await shell.says("namespaces", "create", "shop", "--tag", shell.tag)
            await shell.enqueue("-n", "shop")
            await shell.says("namespaces", "move", "shop", "--to", "b", "--no-wait")
            told = await shell.says("namespaces", "abort-move", "shop")
            assert re.fullmatch(
                r"shop  default to b: (\w+, being aborted|aborted  \(.* aborted it\))\n", told
            ), told

            async def is_over() -> bool:
                said = await shell.says("namespaces", "show", "shop")
                return "move     default to b: aborted  (local aborted it), at 20" in said

            await wait_until(is_over, what="the move is aborted")
    await forget(store_server.url, shell.tag)


async def test_a_move_whose_record_is_damaged_is_ended_after_its_name_was_typed(
    shell: Shell, store_server: StoreServer
) -> None:
    await shell.says("namespaces", "create", "shop", "--tag", shell.tag)
    client = StoreClient(store_server.url, connections=1)
    await client.redis.hset(Keys(shell.tag.removesuffix("-shop")).move("shop"), "step", "flying")
    await client.close()
    listed = await shell.says("namespaces")
    assert "the record of the move of namespace shop cannot be read" in listed
    refused = await shell.run("namespaces", "abort-move", "shop")
    assert (refused.exit_code, "abort-move shop --force" in refused.output) == (4, True)
    refused = await shell.run("namespaces", "abort-move", "shop", "--force", "--confirm", "ship")
    assert (refused.exit_code, "nothing was changed" in refused.output) == (2, True)
    ended = await shell.says("namespaces", "abort-move", "shop", "--force", "--confirm", "shop")
    assert ended == "shop  open, in store default\n"


async def test_the_name_is_typed_before_a_namespace_is_deleted(shell: Shell) -> None:
    await shell.says("namespaces", "create", "shop", "--tag", shell.tag)
    await shell.says("namespaces", "close", "shop")
    other = await shell.run("namespaces", "delete", "shop", "--confirm", "ship")
    assert other.exit_code == 2
    assert "ship is not shop: nothing was changed" in other.output
    alone = await shell.run("namespaces", "delete", "shop")
    assert alone.exit_code == 2
    assert "use --confirm shop" in alone.output
    assert "shop" in await shell.says("namespaces")


async def test_faulty_and_unknown_namespaces_are_told(shell: Shell) -> None:
    faulty = await shell.run("jobs", "-n", "Shop")
    assert faulty.exit_code == 2
    assert "--namespace: namespace 'Shop': a name has 2 to 39 of the characters a-z 0-9 -" in faulty.output
    unknown = await shell.run("jobs", "-n", "ship")
    assert unknown.exit_code == 3
    assert (
        "there is no namespace 'ship', or the caller has no right in it (404 unknown_namespace)"
        in unknown.stderr
    )
    assert "Check -n (--namespace) and the token. `jqmaster namespaces` lists" in unknown.stderr
    slash = await shell.run("namespaces", "show", "a/b")
    assert slash.exit_code == 3


async def test_two_different_namespaces_are_refused(shell: Shell) -> None:
    for name in ("mail", "default"):
        refused = await shell.run("jobs", "-n", name, JQMASTER_URL=f"{shell.url}/ns/shop")
        assert refused.exit_code == 2
        assert f"/ns/shop names the namespace shop, and not {name}: give only one of them" in refused.output
    same = await shell.run("jobs", "-n", "shop", JQMASTER_URL=f"{shell.url}/ns/shop")
    assert "unknown_namespace" in same.output


async def test_the_path_of_a_namespace_is_refused_for_objects_of_the_installation(shell: Shell) -> None:
    await shell.says("namespaces", "create", "shop", "--tag", shell.tag)
    await shell.enqueue("-n", "shop")
    for words in (("users", "-n", "shop"), ("namespaces", "--master", f"{shell.url}/ns/shop")):
        refused = await shell.run(*words)
        assert refused.exit_code == 2
        assert (
            "concerns the whole installation: give --master http://host:port without /ns/NAME"
            in refused.output
        )


async def test_a_namespace_is_moved_to_another_node_of_its_cluster(tmp_path: Path) -> None:
    cluster = Cluster()
    with started(cluster):
        async with master_on(cluster.url, data_dir=tmp_path) as (master, _):
            shell = Shell(master)
            found = json.loads(await shell.says("namespaces", "slot", "default", "--json"))
            if found["fault"]:
                pytest.skip("this store moves slots key by key only")
            source = found["node"]
            target = next(one["address"] for one in found["nodes"] if not one["has_slot"])
            told = await shell.says("namespaces", "slot", "default")
            assert told.startswith(f"default  slot {found['slot']} at {source}\n")
            assert re.search(rf"^{target} +[0-9]+ MiB", told, re.MULTILINE)
            move = ("namespaces", "move", "default", "--to-node", target)
            plan = await shell.says(*move, "--dry-run")
            assert f"from {source} to {target}; nothing stops" in plan
            done = await shell.run(*move)
            assert done.stdout.startswith(f"default  slot {found['slot']} at {target}; ")
            assert f"default  slot {found['slot']} at {source}; {source} to {target}: " in done.stderr
            back = await shell.says("namespaces", "move", "default", "--to-node", source, "--no-wait")
            assert f"{target} to {source}: " in back

            async def is_back() -> bool:
                told = await shell.says("namespaces", "slot", "default", "--json")
                return bool(
                    json.loads(told)["move"]["state"] == "done" and json.loads(told)["node"] == source
                )

            await wait_until(is_back, what="the slot is back")
            refused = await shell.run("namespaces", "abort-move", "default", "--node")
            assert refused.exit_code != 0
            assert "is not being moved" in refused.stderr
            for words in ((), ("--to", "b", "--to-node", target)):
                refused = await shell.run("namespaces", "move", "default", *words)
                assert refused.exit_code == 2
                assert "either --to STORE or --to-node NODE" in refused.stderr


async def test_a_move_to_a_node_that_is_aborted_ends_the_command(tmp_path: Path) -> None:
    cluster = Cluster()
    with started(cluster):
        async with master_on(cluster.url, data_dir=tmp_path) as (master, api):
            shell = Shell(master)
            found = json.loads(await shell.says("namespaces", "slot", "default", "--json"))
            if found["fault"]:
                pytest.skip("this store moves slots key by key only")
            for node in cluster.nodes:
                node.ask("DEBUG", "SLOTMIGRATION", "PREVENT-PAUSE", 1)
            target = next(one["address"] for one in found["nodes"] if not one["has_slot"])
            moving = asyncio.create_task(shell.run("namespaces", "move", "default", "--to-node", target))

            # By the API, because two commands in one process would share their output.
            async def is_aborted() -> bool:
                status, _ = await api.call("DELETE", "/api/namespaces/default/slot/move")
                return status == 202

            await wait_until(is_aborted, what="the move is aborted")
            done = await moving
            assert done.exit_code == 1
            assert ": aborted" in done.stdout


@pytest.mark.parametrize(("done", "told"), [(48, "48 of about 749"), (801, "801 of about 801")])
def test_a_move_never_shows_more_keys_than_there_are(done: int, told: str) -> None:
    move = {
        "source": "a", "target": "b", "step": "checking", "keys": 749, "copied_keys": 0, "compared_keys": done,
        "aborted_by": "", "ended_at": None, "reason": "",
    }  # fmt: skip
    assert namespaces._progress(move) == f"a to b: checking  {told} keys"
