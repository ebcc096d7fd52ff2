import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { CheckpointNotSaved, CodedError, Defer, Discard, JobCanceled, JobDiscarded, JobFailed, RefusedError, Worker, task, type AnyTask } from "jqmaster-sdk";
import { LIVE, MASTER, SILENT, unique, until, withWorker } from "./support.js";

for (const pull of [false, true]) {
  const way = pull ? "pulled" : "pushed";

  test(`a ${way} job is stopped when it is canceled, and when its time is over`, LIVE, async () => {
    const reasons: string[] = [];
    const slow = task<number>(unique("slow"), { timeout: 20, maxRetry: 0, keepResult: true }, async (seconds, { signal }) => {
      await sleep(seconds * 1000, undefined, { signal }).catch(() => {
        reasons.push((signal.reason as Error).name);
        throw signal.reason;
      });
    });
    await withWorker([slow], async () => {
      const canceled = await slow.enqueue(20);
      await until(async () => (await canceled.refresh()).state === "running");
      await canceled.cancel();
      await assert.rejects(canceled.result({ wait: 60 }), JobCanceled);
      const late = await slow.with({ timeout: 0.2 }).enqueue(20);
      await assert.rejects(late.result({ wait: 60 }), (error: unknown) => error instanceof JobFailed && error.reason === "timeout");
      await until(() => reasons.length === 2);
      // The command to cancel may reach the worker late.
      assert.deepEqual(reasons.sort(), ["AbortError", "TimeoutError"]);
    }, { pull });
  });
}

test("a handler tells its progress, saves a checkpoint, writes a log, and enqueues", LIVE, async () => {
  const child = task<number>(unique("child"), { delay: 3600 });
  let first: string | undefined;
  const crawl = task<void>(unique("crawl"), { keepResult: true, retry: { baseS: 0 } }, async (_, ctx) => {
    if (ctx.attempt > 1) return [ctx.lastCheckpoint, ctx.attempt, ctx.fence > 0, ctx.remaining() > 1, ctx.headers];
    ctx.log.info("the first line");
    ctx.log.warning("the second");
    ctx.progress(0.5, "half");
    await ctx.checkpoint({ next: 7 });
    await assert.rejects(ctx.checkpoint("x".repeat(17_000)), RangeError);
    first = (await ctx.enqueue(child, 1)).id;
    throw new Error("again");
  });
  await withWorker([crawl], async () => {
    const handle = await crawl.with({ headers: { a: "b" } }).enqueue();
    assert.deepEqual(await handle.result({ wait: 60 }), [{ next: 7 }, 2, true, true, { a: "b" }]);
    assert.equal((await child.handle(first ?? "").refresh()).state, "scheduled");
    const progress = await handle.progress();
    assert.deepEqual([progress?.fraction, progress?.message], [0.5, "half"]);
    const answer = await fetch(`${MASTER}/api/jobs/${handle.id}/logs`, { headers: { Accept: "application/json" } });
    const { entries } = (await answer.json()) as { entries: { level: string; text: string }[] };
    assert.deepEqual(entries.map(({ level, text }) => [level, text]), [["info", "the first line"], ["warning", "the second"]]);
  });
});

test("a job that tells what it used ends as if it had not", LIVE, async () => {
  const ask = task<boolean, string>(unique("ask"), { keepResult: true, maxRetry: 0 }, (fails, ctx) => {
    ctx.used({ tokens: 1812 });
    ctx.observed("no-such-constraint", { remaining: 5, resetsS: 1 });
    if (fails) throw new Error("too many tokens");
    return "answered";
  });
  await withWorker([ask], async () => {
    assert.equal(await (await ask.enqueue(false)).result({ wait: 60 }), "answered");
    await assert.rejects((await ask.enqueue(true)).result({ wait: 60 }), /too many tokens/);
  });
});

test("what a handler throws decides how its job goes on", LIVE, async () => {
  const orders = task<string, string>(unique("orders"), { keepResult: true, maxRetry: 1, retry: { baseS: 0 }, retryCodes: ["BUSY"] }, (order, ctx) => {
    if (order === "discard") throw new Discard("the photo was deleted");
    if (order === "defer" && ctx.attempt === 1) throw new Defer(0.01);
    if (order === "busy" && ctx.attempt === 1) throw new CodedError("BUSY");
    if (order === "gone") throw new CodedError("GONE", "no such photo");
    if (order === "unsendable") return (() => order) as unknown as string;
    return order;
  });
  await withWorker([orders], async () => {
    const result = async (order: string) => (await orders.enqueue(order)).result({ wait: 60 });
    assert.equal(await result("defer"), "defer");
    assert.equal(await result("busy"), "busy");
    await assert.rejects(result("discard"), (error: unknown) => error instanceof JobDiscarded && error.reason === "the photo was deleted");
    await assert.rejects(result("gone"), (error: unknown) => error instanceof JobFailed && error.code === "GONE");
    await assert.rejects(result("unsendable"), /cannot be sent: the value is a function/);
  });
});

test("a worker that stops lets jobs finish, and hands back those that do not", LIVE, async () => {
  let quickStarts = 0;
  const quick = task<void, string>(unique("quick"), { keepResult: true }, async () => {
    quickStarts += 1;
    await sleep(200);
    return "finished";
  });
  let starts = 0;
  const long = task<void, string>(unique("long"), { keepResult: true, maxRetry: 0 }, async (_, { signal }) => {
    if (starts++ === 0) await sleep(20_000, undefined, { signal });
    return "elsewhere";
  });
  const worker = new Worker({ tasks: [quick, long], master: MASTER, signals: false, logger: SILENT, grace: 0.5 });
  await worker.listen();
  const handles = [await quick.enqueue(), await long.enqueue()] as const;
  await until(() => quickStarts === 1 && starts === 1).finally(() => worker.stop());
  assert.equal(await handles[0].result({ wait: 60 }), "finished");
  assert.equal((await handles[1].refresh()).state, "ready");
  await withWorker([long], async () => {
    assert.equal(await handles[1].result({ wait: 60 }), "elsewhere");
  });
  await assert.rejects(worker.start(), /starts once|give the option url/);
});

test("a worker is served by the application's server", LIVE, async () => {
  const echo = task<string, string>(unique("echo"), { keepResult: true }, (text) => text);
  const served: { worker?: Worker } = {};
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const hasBody = request.method !== "GET";
      const asked = new Request(`http://${request.headers.host ?? ""}${request.url ?? ""}`, {
        method: request.method ?? "GET",
        headers: request.headers as Record<string, string>,
        ...(hasBody ? { body: Buffer.concat(chunks) } : {}),
      });
      void served.worker?.fetch(asked).then(async (answer) => {
        response.writeHead(answer.status, Object.fromEntries(answer.headers)).end(Buffer.from(await answer.arrayBuffer()));
      });
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const worker = (served.worker = new Worker({ tasks: [echo], master: MASTER, url: `http://127.0.0.1:${port}/jq`, signals: false, logger: SILENT }));
  try {
    await worker.start();
    assert.equal(await (await echo.enqueue("hello")).result({ wait: 60 }), "hello");
    assert.equal((await worker.fetch(new Request(`http://127.0.0.1:${port}/jq/ping`))).status, 204);
    assert.equal((await worker.fetch(new Request(`http://127.0.0.1:${port}/ping`))).status, 404);
    assert.equal((await worker.fetch(new Request(`http://127.0.0.1:${port}/jq/status`))).status, 401);
  } finally {
    await worker.stop();
    server.closeAllConnections();
    server.close();
  }
});

test("a worker that cannot work says so at once", LIVE, async () => {
  assert.throws(() => new Worker({ tasks: [] }), /needs a task/);
  assert.throws(() => new Worker({ tasks: [task("a")] }), /the task a has no handler/);
  assert.throws(() => new Worker({ tasks: [task("a", () => 1), task("a", () => 2)] }), /two tasks are named a/);
  const given: readonly AnyTask[] = [task("a", () => 1)];
  await assert.rejects(new Worker({ tasks: given, signals: false }).start(), /give the option url/);
  await assert.rejects(new Worker({ tasks: given, signals: false }).listen({ host: "0.0.0.0" }), /give the option url/);
  const labels = { zone: "x".repeat(300) };
  await assert.rejects(new Worker({ tasks: given, master: MASTER, labels, signals: false, logger: SILENT }).listen(), RefusedError);
});

test("a checkpoint of a job that is over is not saved", LIVE, async () => {
  let thrown: unknown;
  const slow = task(unique("slow"), async (_, ctx) => {
    await new Promise((resolve) => {
      ctx.signal.addEventListener("abort", resolve);
    });
    thrown = await ctx.checkpoint(1).catch((error: unknown) => error);
  });
  await withWorker([slow], async () => {
    const handle = await slow.enqueue();
    await until(async () => (await handle.refresh()).state === "running");
    await handle.cancel();
    await until(() => thrown !== undefined);
    assert.ok(thrown instanceof CheckpointNotSaved);
  });
});
