"""Compare the three scripts of a lone job with functions of the store that do the same.

    python -m benchmarks.functions [--jobs 400] [--rounds 8]

Each round sends jobs one by one, and calls the store in two forms: as scripts (`EVALSHA`), and as functions with the
text of the script (`FCALL`). The output has two figures for each call: the µs of the store, by its own statistics, and
the bytes that a function allocates in Lua. If a function made its modules once instead of in each call, it could save
at most these bytes.
"""

import argparse
import asyncio
import statistics
import uuid
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

from jqmaster.store.keys import Keys
from jqmaster.store.link.client import StoreClient
from jqmaster.store.link.scripts import Arg, load
from jqmaster.store.link.shard import Shard
from tests.support.admin import admin_of
from tests.support.server import StoreServer, started
from tests.support.store import StoreWorld

SCRIPTS: Final = ("enqueue", "claim", "settle_success")
FORMS: Final = ("scripts", "functions")
# The key of the hash with the bytes that calls have allocated, by script. COUNTED is the suffix of the functions that
# count the bytes.
ALLOCATED: Final = "allocated"
COUNTED: Final = "counted"


def plain_library(name: str) -> str:
    """Return the text of a library with a function that does what the script does."""
    _, _, body = load(name).source.decode().partition("\n")
    return _library(name, "", f"function(KEYS, ARGV)\n{body}\nend")


def _library(name: str, modules: str, function: str) -> str:
    return f"""#!lua name=lib_{name}
{modules}
local run = {function}
local function counted(keys, args)
  collectgarbage('stop')
  local before_kb = collectgarbage('count')
  local answer = run(keys, args)
  local bytes = (collectgarbage('count') - before_kb) * 1024
  collectgarbage('restart')
  redis.call('HINCRBY', '{ALLOCATED}', '{name}', math.floor(bytes))
  return answer
end
redis.register_function{{function_name = '{name}', callback = run, flags = {{'allow-oom'}}}}
redis.register_function{{function_name = '{name}_{COUNTED}', callback = counted, flags = {{'allow-oom'}}}}
"""


class Asking:
    """Sends commands to the store, with calls of the scripts of a lone job in one of the two forms."""

    def __init__(self, client: StoreClient) -> None:
        self._ask = client._pool.ask
        self._names = {load(name).sha: name for name in SCRIPTS}
        self.form = FORMS[0]
        self.counts = False

    async def __call__(self, commands: Sequence[tuple[Arg, ...]], *, writes: bool) -> list[Any]:
        if self.form != FORMS[0]:
            suffix = f"_{COUNTED}" if self.counts else ""
            commands = [
                ("FCALL", self._names[str(one[1])] + suffix, *one[2:]) if one[1] in self._names else one
                for one in commands
            ]
        return await self._ask(commands, writes=writes)


async def usec_per_call(client: StoreClient) -> float:
    stats = await admin_of(client).info("commandstats")
    found = stats.get("cmdstat_fcall") or stats["cmdstat_evalsha"]
    return float(found["usec"]) / float(found["calls"])


async def one_round(client: StoreClient, jobs: int) -> dict[str, float]:
    """Run jobs one by one, and return how long the store takes for a call of each script, in µs."""
    admin = admin_of(client)
    shard = Shard.bound(client, Keys(f"f{uuid.uuid4().hex[:8]}"))
    costs: dict[str, float] = {}
    async with StoreWorld.on(shard) as world:
        worker = await world.worker(max_jobs=jobs)
        await admin.config_resetstat()
        for n in range(jobs):
            await world.enqueue("work", n, keep_result=True)
        costs["enqueue"] = await usec_per_call(client)
        await admin.config_resetstat()
        claimed = [(await world.claim(worker, limit=1))[0] for _ in range(jobs)]
        costs["claim"] = await usec_per_call(client)
        await admin.config_resetstat()
        for job in claimed:
            assert await world.settlements.settle_success(worker, [(job.job_id, job.token, b"\xc0")]) == [
                True
            ]
        costs["settle_success"] = await usec_per_call(client)
    return costs


async def measure(url: str, jobs: int, rounds: int) -> None:
    client = StoreClient(url, connections=4)
    asking, admin = Asking(client), admin_of(client)
    await admin.execute_command("ACL", "SETUSER", "jqmaster", "+fcall", f"~{ALLOCATED}")
    client._pool.ask = asking  # type: ignore[method-assign]
    costs: dict[str, dict[str, list[float]]] = {form: defaultdict(list) for form in FORMS}
    for number in range(rounds + 1):
        for form in FORMS:
            asking.form = form
            for name in SCRIPTS if form != FORMS[0] else ():
                text = plain_library(name)
                await admin.function_load(text, replace=True)
            found = await one_round(client, jobs)
            if number:  # the first round only warms up
                for name, usec in found.items():
                    costs[form][name].append(usec)
    for form in FORMS[1:]:
        asking.form, asking.counts = form, True
        for name in SCRIPTS:
            text = plain_library(name)
            await admin.function_load(text, replace=True)
        await admin.delete(ALLOCATED)
        await one_round(client, jobs)
        sums: dict[bytes, bytes] = await admin.execute_command("HGETALL", ALLOCATED)
        each = [f"{name.decode()} {int(total) // jobs:,}" for name, total in sums.items()]
        print(f"{form}: bytes that a call allocates: {', '.join(each)}")
    for name in SCRIPTS:
        by_form = {form: statistics.median(costs[form][name]) for form in FORMS}
        told = [f"{form} {one:.1f} µs ({one / by_form[FORMS[0]]:.2f})" for form, one in by_form.items()]
        print(f"{name}: {', '.join(told)}")
    await client.close()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=8)
    given = parser.parse_args()
    server = StoreServer()
    with started(server):
        asyncio.run(measure(server.url, given.jobs, given.rounds))


if __name__ == "__main__":
    main()
