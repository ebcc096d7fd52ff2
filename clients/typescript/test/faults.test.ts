/** Faults of the process of a worker. */

import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { cp, mkdtemp, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { Worker, task } from "jqmaster-sdk";
import { LIVE, MASTER, SILENT, unique, until, withWorker } from "./support.js";

const PROGRAM = fileURLToPath(new URL("programs/worker.js", import.meta.url));

interface Child {
  readonly process: ChildProcess;
  readonly said: () => string;
}

async function started(name: string, env: Record<string, string> = {}, workers = 1): Promise<Child> {
  const child = spawn(process.execPath, [PROGRAM], { env: { ...process.env, NAME: name, JQMASTER_URL: MASTER, ...env }, stdio: ["ignore", "ignore", "pipe"] });
  let said = "";
  child.stderr.on("data", (text: Buffer) => (said += text.toString()));
  await until(() => said.split("registered as").length > workers);
  return { process: child, said: () => said };
}

async function ended({ process: child }: Child): Promise<number | null> {
  if (child.exitCode === null && child.signalCode === null) {
    child.kill("SIGTERM");
    await once(child, "exit");
  }
  return child.exitCode;
}

for (const [fault, code] of [["exit", 7], ["rejection", 1]] as const) {
  test(`a process that ends in the middle of a job (${fault}) loses the job to another worker`, LIVE, async () => {
    const name = unique(fault);
    const child = await started(name);
    try {
      const faulty = task<unknown, { attempt: number }>(name, { keepResult: true, timeout: 60 }, (_, ctx) => ({ attempt: ctx.attempt }));
      const handle = await faulty.enqueue({ fault });
      if (child.process.exitCode === null) await once(child.process, "exit");
      assert.equal(child.process.exitCode, code);
      await withWorker([faulty], async () => {
        assert.deepEqual(await handle.result({ wait: 60 }), { attempt: 2 });
      });
    } finally {
      await ended(child);
    }
  });
}

test("an event loop that is blocked for longer than a lease settles nothing twice, and is told", LIVE, async () => {
  const name = unique("block");
  const child = await started(name);
  try {
    const handle = await task<unknown, { attempt: number }>(name, { keepResult: true, timeout: 60 }).enqueue({ fault: "block", seconds: 6 });
    const { attempt } = await handle.result({ wait: 60 });
    assert.equal(attempt, 2);
    assert.match(child.said(), /the event loop was blocked for \d+\.\d s/);
    const { attempts } = await handle.refresh();
    assert.equal(attempts.filter(({ outcome }) => outcome === "success").length, 1);
    assert.equal(await ended(child), 0);
  } finally {
    await ended(child);
  }
});

test("workers of the cluster module have an address each, and end in good order", LIVE, async () => {
  const name = unique("cluster");
  const child = await started(name, { CLUSTER: "1" }, 2);
  try {
    const who = task<unknown, number>(name, { keepResult: true });
    const handles = await who.many(Array.from({ length: 20 }, () => ({ fault: "who" })));
    const pids = new Set(await Promise.all(handles.map((handle) => handle.result({ wait: 60 }))));
    assert.equal(pids.size, 2);
  } finally {
    assert.equal(await ended(child), 0);
  }
});

test("two copies of the package work in one process, and know each other's orders", LIVE, async () => {
  const folder = await mkdtemp(join(tmpdir(), "jqmaster-sdk-"));
  try {
    const root = fileURLToPath(new URL("../../", import.meta.url));
    await cp(join(root, "dist"), join(folder, "dist"), { recursive: true });
    await cp(join(root, "package.json"), join(folder, "package.json"));
    await symlink(join(root, "node_modules"), join(folder, "node_modules"));
    const other = (await import(pathToFileURL(join(folder, "dist/index.js")).href)) as typeof import("jqmaster-sdk");
    assert.notEqual(other.Worker, Worker);
    const [here, there] = [unique("here"), unique("there")];
    const ours = task(here, { keepResult: true }, () => {
      throw new other.Discard("by the other copy");
    });
    const theirs = other.task<string, string>(there, { keepResult: true }, (text) => text);
    const worker = new other.Worker({ tasks: [theirs], master: MASTER, signals: false, logger: SILENT });
    await worker.listen();
    await withWorker([ours], async () => {
      const handle = await ours.enqueue();
      await assert.rejects(handle.result({ wait: 60 }), { name: "JobDiscarded" });
      assert.equal(await (await task<string, string>(there, { keepResult: true }).enqueue("hello")).result({ wait: 60 }), "hello");
    });
    await worker.stop();
  } finally {
    await rm(folder, { recursive: true });
  }
});
