"""The help of every command ends with examples, and each of them runs: one master, and all commands in this process."""

import asyncio
import json
import shlex
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from jqmaster.app import Master
from jqmaster.cli.console.examples import EXAMPLES
from jqmaster.cli.console.help_pages import CommandWithExamples, GroupWithExamples
from jqmaster.cli.root import COMMANDS, app
from jqmaster.domain.operations.timeline import KnownState, TimelineEntry, TimelineKind
from tests.support import real_time
from tests.support.master import PATIENT, Api, forget, master_on
from tests.support.scripted_worker import ScriptedWorker, puller_at
from tests.support.server import StoreServer, started
from tests.support.topology import Cluster
from tests.support.waiting import wait_until
from tests.support.webhook_receiver import SECRET

pytestmark = real_time.PROCESSES

TOKEN = "the-token-of-an-admin-of-the-examples"
# Commands that run until they are told to end, or that check another program for minutes. Their options are checked.
NOT_RUN = frozenset(
    {
        "serve",
        "worker",
        "outbox",
        "mcp",
        "conformance worker",
        "conformance master",
        "conformance target",
        "fireworq import",
    }
)
# The queue of this test has failures, which may be counted only later.
BY_THE_QUEUE = {
    "health": (0, 1),
    # The extra `test` does not install the libraries that know countries.
    "calendars put": (0, 4),
}
# Examples that say by their exit code what they found.
CODES = {
    "plan": 6,
    "constraints plan": 6,
    "masters demote": 4,
    "remove-contracts": 3,
    # The move has ended.
    "namespaces abort-move": 4,
    # No group has this ID.
    "failures merge": 3,
    "erase-log": 3,
    "targets test": 1,
}
FILES = {
    "jobs.jsonl": '{"name": "mail.send"}\n{"name": "mail.send", "tags": ["import"]}\n',
    "partner.toml": 'matcher = {field = "name", op = "glob", value = "partner.*"}\nconcurrency = 2\n'
    'key = "argument.tenant"\n',
    "limits.csv": "value,concurrency,weight\nacme,80,10\n",
    "constraints.toml": '[[constraint]]\nname = "partner"\nmatcher = {field = "name", op = "eq", value = "partner.a"}\n'
    "concurrency = 3\n",
    "jqmaster.toml": '[[constraint]]\nname = "import"\nmatcher = {field = "tags", op = "eq", value = "import"}\n'
    "concurrency = 3\n",
    "nightly.toml": 'schedule = {cron = "0 2 * * *"}\ntime_zone = "Asia/Tokyo"\njob = {name = "report.nightly"}\n',
    "office.toml": 'dates = [{date = 2026-12-29, name = "Closed"}]\n',
    "failures.toml": 'when = "job_failed"\nto = [{webhook = "http://127.0.0.1:9/hook"}]\n',
    "shop.toml": 'names = ["shop.*"]\nurl = "http://127.0.0.1:9/jobs/{name}"\n',
    "password.txt": "correct horse battery staple\n",
    "new.txt": "correct horse battery stapler\n",
}


class World:
    """A master with a worker that pulls, and the objects that the examples name."""

    def __init__(self, master: Master, api: Api, worker: ScriptedWorker, directory: Path) -> None:
        self.master = master
        self.api = api
        self.worker = worker
        self.directory = directory

    async def run(self, *words: str, **variables: str) -> Any:
        """Run a command in a thread, and return its result."""
        return await asyncio.to_thread(CliRunner().invoke, app, list(words), env=variables)

    async def made(self, path: str, **body: Any) -> Any:
        status, answer = await self.api.call("POST", path, body)
        assert status < 300, answer
        return answer

    async def ended(self, kind: str = "success", **fields: Any) -> str:
        """Return a job that has ended in this way."""
        job = await self.claimed(await self.api.enqueue("pulled", keep_result=True))
        await self.worker.end(job, kind, **fields)
        return str(job["job_id"])

    async def claimed(self, job_id: str) -> dict[str, Any]:
        """Return the job for the worker. Others, which an example has set going again, end."""
        while True:
            for job in await self.worker.claim(max_jobs=1):
                if job["job_id"] == job_id:
                    return job
                await self.worker.end(job)

    async def failed(self) -> str:
        return await self.ended("failure", reason="other", message="the partner is down", should_retry=False)

    async def gone(self) -> str:
        job_id = await self.ended()
        assert (await self.api.call("DELETE", f"/api/jobs/{job_id}"))[0] == 204
        return job_id

    async def ready(self) -> str:
        async def is_ready() -> bool:
            return (await self.api.http.get("/readyz")).status_code == 200

        await wait_until(is_ready, timeout_s=20, what="the master is ready")
        return ""

    async def waiting(self) -> str:
        return await self.api.enqueue("mail.send", delay=600)

    async def taken(self) -> str:
        await self.api.enqueue("report.nightly")
        return str(json.loads((await self.run("take", "report.nightly", "--wait", "10")).output)["id"])

    async def group(self) -> str:
        async def listed() -> Any:
            return (await self.api.call("GET", "/api/failures"))[1]["groups"]

        return str((await wait_until(listed, timeout_s=10, what="a group of failures"))[0]["id"])

    async def batch(self) -> str:
        return str((await self.made("/api/batches", description="the import"))["id"])

    async def failed_batch(self) -> str:
        batch = await self.batch()
        job = await self.claimed(await self.api.enqueue("pulled", batch=batch))
        await self.worker.end(job, "failure", reason="other", message="no", should_retry=False)
        return batch

    async def event(self) -> str:
        return str((await self.api.call("GET", "/api/events"))[1]["events"][0]["event_id"])

    async def challenge(self) -> str:
        job_id = await self.api.enqueue("pulled")
        job = await self.claimed(job_id)
        request = {"job_id": job_id, "token": job["token"], "timeout_s": 60.0}
        opened = await self.made(f"/api/workers/{self.worker.id}/challenges", **request)
        await self.worker.end(job, "challenged", request_id=opened["request_id"])
        return job_id

    async def delivery(self) -> str:
        job_id = await self.api.enqueue(
            "mail.send", delay=600, notify={"url": "http://127.0.0.1:9/", "on": ["canceled"]}
        )
        await self.made(f"/api/jobs/{job_id}/cancel")

        async def listed() -> Any:
            return (await self.api.call("GET", f"/api/jobs/{job_id}/deliveries"))[1]["deliveries"]

        await wait_until(listed, timeout_s=10, what="a delivery")
        return job_id

    async def worker_id(self) -> str:
        return self.worker.id

    async def slot_rule(self) -> str:
        await self.made(f"/api/workers/{self.worker.id}/slots", max_jobs=5, keep=True)
        return str((await self.api.call("GET", "/api/slot-rules"))[1]["slot_rules"][0]["id"])

    async def incident(self) -> str:
        shard = self.master.shard
        store, leadership = shard.services.timeline_store, shard.leader.leadership
        assert leadership
        lost = TimelineEntry(TimelineKind.WORKER_LOST, 1_800_000_000_000, "w1", label="node-1:7")
        await store.note(leadership.epoch, await store.known() or KnownState(), [lost])
        return (await store.entries())[-1].id

    async def master_id(self) -> str:
        return self.master.id

    async def token_id(self) -> str:
        return str((await self.made("/api/tokens", label="old", scopes=["read"]))["id"])

    async def other_node(self) -> str:
        """Return the address of a node to which the engine can move `shop`; empty if it moves no slots."""
        slot = (await self.api.call("GET", "/api/namespaces/shop/slot"))[1]
        nodes = [one["address"] for one in slot["nodes"] if not one["has_slot"]]
        return "" if slot["fault"] else str(nodes[0])

    async def ben(self) -> str:
        await self.api.call(
            "POST", "/api/users", {"name": "ben", "role": "viewer", "password": "correct horse battery"}
        )
        return "ben"


# Functions that make the object that `ID`, or a name in the example, stands for.
MAKES: dict[str, Callable[[World], Awaitable[str]]] = {
    "healthcheck": World.ready,
    "job": World.ended, "result": World.ended, "logs": World.ended, "why": World.waiting, "set": World.waiting,
    "run": World.waiting, "cancel": World.waiting, "retry": World.failed, "delete": World.ended,
    "erase-log": World.gone, "personal-data erase": World.ended,
    "take": lambda world: world.api.enqueue("report.nightly"), "done": World.taken,
    "failures ignore": World.group, "failures unignore": World.group, "failures assign": World.group,
    "failures unassign": World.group, "failures resolve": World.group, "failures reopen": World.group,
    "failures merge": World.group, "failures split": World.group,
    "batches show": World.batch,
    "batches seal": World.batch, "batches retry": World.failed_batch, "batches cancel": World.batch,
    "events show": World.event, "events replay": World.event, "challenges show": World.challenge,
    "challenges answer": World.challenge, "webhooks show": World.delivery, "webhooks resend": World.delivery,
    "workers slots": World.worker_id, "workers drop-slot-rule": World.slot_rule, "workers drain": World.worker_id,
    "workers resume": World.worker_id, "workers detach": World.worker_id, "masters demote": World.master_id,
    "incidents show": World.incident, "incidents ack": World.incident,
    "tokens rotate": World.token_id, "tokens revoke": World.token_id, "users set-role": World.ben,
}  # fmt: skip


@pytest.fixture
def other_store() -> Iterator[Cluster]:
    """The store `b`, to which a namespace is moved."""
    cluster = Cluster()
    with started(cluster):
        yield cluster


@pytest.fixture
async def world(
    store_server: StoreServer, other_store: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[World]:
    settings = {
        "tokens": [f"admin+push+work+operate+read:{TOKEN}"],
        "webhook_secrets": SECRET,
        "allowed_webhook_networks": "127.0.0.0/8",
        "stores": {"b": {"redis_url": other_store.url}},
        "data_dir": tmp_path / "data",
        **PATIENT,
    }
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    async with master_on(store_server.url, **settings) as (master, _):
        api = Api(master.server.url, TOKEN)
        variables = {
            "JQMASTER_URL": master.server.url, "JQMASTER_TOKEN": TOKEN, "JQMASTER_PORT": str(master.server.port),
            "JQMASTER_SHARD": master.settings.shard, "XDG_RUNTIME_DIR": str(tmp_path),
        }  # fmt: skip
        for name, text in variables.items():
            monkeypatch.setenv(name, text)
        monkeypatch.chdir(tmp_path)
        async with puller_at(api, "pulled") as worker:
            yield World(master, api, worker, tmp_path)
        await api.http.aclose()
    for tag in ("shop", "jq-old"):
        await forget(store_server.url, tag)


def commands() -> Iterator[tuple[str, Any]]:
    """Yield each command that the help shows, by its words."""
    root: Any = typer.main.get_command(app)
    hidden = {one.name for one in COMMANDS if one.is_hidden}
    for name in root.commands:
        if name in hidden:
            continue
        command = root.commands[name]
        if hasattr(command, "commands"):
            assert isinstance(command, GroupWithExamples)
            yield from ((f"{name} {child}", one) for child, one in command.commands.items())
        else:
            yield name, command


def test_every_command_has_an_example_and_a_panel() -> None:
    found = dict(commands())
    assert found.keys() == EXAMPLES.keys()
    assert all(isinstance(one, CommandWithExamples) for one in found.values())
    assert all(one.panel for one in COMMANDS)


def test_the_summary_of_each_command_is_one_line() -> None:
    """Lists of commands show the first paragraph, and keep its line breaks."""
    summaries = {path: (one.help or "").split("\n\n")[0] for path, one in commands()}
    assert [path for path, text in summaries.items() if not text or "\n" in text] == []


@pytest.mark.parametrize(
    "words", [("enqueue",), ("workers", "drain"), ("help", "workers", "drain"), ("token", "revoke")]
)
def test_the_help_ends_with_the_examples_to_copy(words: tuple[str, ...]) -> None:
    arguments = words if words[0] == "help" else (*words, "--help")
    path = " ".join(words).removeprefix("help ").replace("token ", "tokens ")
    shown = CliRunner().invoke(app, list(arguments))
    assert shown.exit_code == 0
    lines = shown.output.rstrip().splitlines()
    assert lines[-len(EXAMPLES[path]) - 1 :] == ["Examples:", *(f"  {line}" for line in EXAMPLES[path])]


@pytest.mark.parametrize("words", [(), ("serve",), ("tokens",), ("jobs",), ("webhooks",)])
def test_the_help_shows_no_type_of_flags(words: tuple[str, ...]) -> None:
    shown = CliRunner().invoke(app, [*words, "--help"])
    assert shown.exit_code == 0
    assert "--help" in shown.output
    assert "bool" not in shown.output.lower()


async def test_each_example_runs(world: World, store_server: StoreServer) -> None:
    faults = []
    root: Any = typer.main.get_command(app)
    for path, lines in EXAMPLES.items():
        for line in lines:
            words = shlex.split(line)[1:]
            assert words[: len(path.split())] == path.split() or f"{words[0]} list" == path, line
            if path in NOT_RUN:
                command, context = root, root.context_class(root, info_name="jqmaster")
                for word in path.split():
                    command = command.get_command(context, word)
                command.make_context(path, words[len(path.split()) :])
                continue
            found = await MAKES[path](world) if path in MAKES else ""
            words = [found if word == "ID" else word for word in words]
            if "--to-node" in words:
                words[-1] = await world.other_node()
                if not words[-1]:
                    continue
            variables = {}
            if "--redis" in words:
                del words[(at := words.index("--redis")) : at + 2]
                url = store_server.backup_url if path == "backup" else store_server.url
                variables = {"JQMASTER_REDIS_URL": url}
            done = await world.run(*words, **variables)
            if done.exit_code not in BY_THE_QUEUE.get(path, (CODES.get(path, 0),)) or isinstance(
                done.exception, Exception
            ):
                faults.append(f"{line}: {done.exit_code} {done.exception!r} {done.output[-300:]}")
    assert not faults, "\n".join(faults)
