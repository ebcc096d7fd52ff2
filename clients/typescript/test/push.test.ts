import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import {
  Fail,
  JobCanceled,
  JobFailed,
  NotFinished,
  NotUniqueError,
  Pusher,
  RefusedError,
  ResultGone,
  ResultNotKept,
  UnavailableError,
  batch,
  chain,
  chord,
  newId,
  task,
} from "jqmaster-sdk";
import { encode } from "#dist/wire/msgpack.js";
import { LIVE, MASTER, unique, until, withWorker } from "./support.js";

test("a job is pushed and its result fetched", LIVE, async () => {
  const resize = task<{ photoId: number }, { width: number; big: bigint }>(unique("resize"), { keepResult: true }, ({ photoId }) => ({
    width: photoId * 2,
    big: 2n ** 60n,
  }));
  await withWorker([resize], async () => {
    const handle = await resize.enqueue({ photoId: 21 });
    assert.deepEqual(await handle.result({ wait: 60 }), { width: 42, big: 2n ** 60n });
    assert.deepEqual(await handle.result(), { width: 42, big: 2n ** 60n }, "the handle keeps it");
    await assert.rejects(resize.handle(newId()).result({ wait: 0 }), ResultGone);
    const dropped = await resize.with({ keepResult: false }).enqueue({ photoId: 1 });
    await until(async () => (await dropped.refresh()).state === "succeeded");
    await assert.rejects(dropped.result({ wait: 60 }), ResultNotKept);
    await assert.rejects(dropped.cancel(), (error: unknown) => error instanceof RefusedError && error.code === "job_succeeded");
  });
});

test("many jobs have a handle each", LIVE, async () => {
  const double = task<number, number>(unique("double"), { keepResult: true }, (value) => value * 2);
  await withWorker([double], async () => {
    const handles = await double.many([1, 2, 3]);
    assert.deepEqual(await Promise.all(handles.map((handle) => handle.result({ wait: 60 }))), [2, 4, 6]);
  });
});

test("a failed job throws what is known of it", LIVE, async () => {
  const gone = task(unique("gone"), { keepResult: true }, () => {
    throw new Fail("no such photo");
  });
  await withWorker([gone], async () => {
    const handle = await gone.enqueue();
    await assert.rejects(handle.result({ wait: 60 }), (error: unknown) => {
      assert.ok(error instanceof JobFailed);
      assert.deepEqual([error.reason, error.errorType], ["error", "Fail"]);
      assert.match(error.message, /no such photo/);
      assert.match(error.traceback, /push\.test/);
      return true;
    });
  });
});

test("a job that waits is not finished, and can be canceled", LIVE, async () => {
  const later = task(unique("later"), { delay: 3600, keepResult: true });
  const handle = await later.enqueue();
  await assert.rejects(handle.result({ wait: 0 }), NotFinished);
  assert.equal(handle.state, "scheduled");
  await handle.cancel();
  await assert.rejects(handle.result({ wait: 0 }), JobCanceled);
});

test("the error for a job that retries has its last error", LIVE, async () => {
  const failing = task(unique("failing"), { keepResult: true, retry: { baseS: 3600, maxS: 3600 } }, () => {
    throw new Error("no such page");
  });
  await withWorker([failing], async () => {
    const handle = await failing.enqueue();
    await until(async () => (await handle.refresh()).state === "retrying");
    await assert.rejects(handle.result({ wait: 0 }), (error: unknown) => {
      assert.ok(error instanceof NotFinished);
      assert.match(error.lastError ?? "", /no such page/);
      assert.match(error.message, /is retrying: its last attempt failed: .*no such page/);
      return true;
    });
    await handle.cancel();
  });
});

test("the wait for a result ends with its signal", LIVE, async () => {
  const handle = await task(unique("later"), { delay: 3600 }).enqueue();
  await assert.rejects(handle.result({ signal: AbortSignal.timeout(50) }), { name: "TimeoutError" });
});

test("the same ID makes one job, other content under it is refused, and a key is held", LIVE, async () => {
  const one = task<number>(unique("one"), { delay: 3600 });
  const id = newId();
  assert.equal((await one.with({ id }).enqueue(1)).id, id);
  assert.equal((await one.with({ id }).enqueue(1)).id, id);
  await assert.rejects(one.with({ id }).enqueue(2), (error: unknown) => error instanceof RefusedError && error.code === "id_taken");
  const held = await one.with({ unique: { key: "a" } }).enqueue(1);
  await assert.rejects(one.with({ unique: { key: "a" } }).enqueue(1), (error: unknown) => error instanceof NotUniqueError && error.jobId === held.id);
  assert.ok((await one.with({ unique: { key: "a", onConflict: "existing" } }).enqueue(1)).isDuplicate);
});

test("a refusal names the field, and the index of a job in the whole call", LIVE, async () => {
  const one = task<number>(unique("one"), { delay: 3600 });
  await assert.rejects(one.with({ priority: 2 ** 40 }).enqueue(1), (error: unknown) => error instanceof RefusedError && error.status === 422 && error.errors[0]?.loc.at(-1) === "priority");
  const jobs = [...Array.from({ length: 1000 }, () => one.job(1)), one.with({ timeout: -1 }).job(1)];
  await assert.rejects(new Pusher({ master: MASTER }).enqueueMany(jobs), (error: unknown) => {
    assert.ok(error instanceof RefusedError);
    assert.equal(error.acceptedIds.length, 1000);
    assert.deepEqual(error.errors[0]?.loc.slice(0, 2), ["jobs", 1000]);
    return true;
  });
});

test("batches and flows", LIVE, async () => {
  const double = task<number, number>(unique("double"), { keepResult: true }, (value) => value * 2);
  const sum = task<void, number>(unique("sum"), { keepResult: true }, (_, ctx) =>
    ctx.inputs.reduce((total, { result }) => total + (result as { result: number }).result, 0),
  );
  await withWorker([double, sum], async () => {
    const made = await batch({ onSuccess: double.job(10), description: "a test" }, (members) => double.with({ batch: members }).many([1, 2]));
    await until(async () => (await made.status()).state === "complete");
    assert.equal((await made.status()).counts.succeeded, 2);
    const handles = await chord([double.job(1), chain(double.job(2), double.job(3))], sum.job()).enqueue();
    assert.equal(await handles.last.result({ wait: 60 }), 8);
  });
});

test("a master that fails is left for the next one, and the repeat makes no second job", LIVE, async () => {
  let calls = 0;
  const failing = createServer((_, response) => {
    calls += 1;
    response.writeHead(503, { "Retry-After": "0" }).end();
  });
  await new Promise<void>((resolve) => failing.listen(0, "127.0.0.1", resolve));
  const { port } = failing.address() as AddressInfo;
  try {
    const pusher = new Pusher({ master: [`http://127.0.0.1:${port}`, "http://127.0.0.1:9", MASTER] });
    const handle = await pusher.enqueue(unique("one"), null, { delay: 3600 });
    assert.equal((await handle.refresh()).state, "scheduled");
    assert.equal(calls, 1);
  } finally {
    failing.close();
  }
});

test("a refusal without an effect leaves no job in doubt", async () => {
  let code = "";
  const refusing = createServer((_, response) => {
    response.writeHead(503, { "Content-Type": "application/msgpack" }).end(encode({ code }));
  });
  await new Promise<void>((resolve) => refusing.listen(0, "127.0.0.1", resolve));
  const pusher = new Pusher({ master: `http://127.0.0.1:${(refusing.address() as AddressInfo).port}`, maxWait: 0.05 });
  try {
    for (const [answered, unknown] of [["namespace_closed", 0], ["store_unavailable", 0], ["outcome_unknown", 1]] as const) {
      code = answered;
      await assert.rejects(pusher.enqueue("one"), (error: unknown) => error instanceof UnavailableError && error.unknownIds.length === unknown);
    }
  } finally {
    refusing.close();
  }
});

test("no answer in time is told, with the job that may have been accepted", async () => {
  const pusher = new Pusher({ master: "http://127.0.0.1:9", maxWait: 0.05 });
  await assert.rejects(pusher.enqueue("one"), (error: unknown) => error instanceof UnavailableError && error.unknownIds.length === 1);
});
