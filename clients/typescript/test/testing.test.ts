import assert from "node:assert/strict";
import { test } from "node:test";
import { CodedError, Defer, Discard, NotFinished, NotUniqueError, ResultNotKept, batch, chain, chord, task } from "jqmaster-sdk";
import { drain, inline, recording } from "jqmaster-sdk/testing";

const double = task<number, number>("double", { keepResult: true }, (value) => value * 2);
const sum = task<void, number>("sum", { keepResult: true }, (_, ctx) =>
  ctx.inputs.reduce((total, { result }) => total + (result as { result: number }).result, 0),
);

test("recording keeps jobs and runs none of them", async () => {
  const jobs = await recording(async (now) => {
    const handle = await double.with({ priority: -5, delay: 60 }).enqueue(21);
    assert.equal(now.length, 1);
    await assert.rejects(handle.result({ wait: 0 }), NotFinished);
  });
  const job = jobs.only(double);
  assert.deepEqual([job.args, job.request.priority, job.state], [21, -5, "scheduled"]);
  assert.throws(() => jobs.only(sum), RangeError);
});

test("drain passes over delays and backoffs", async () => {
  let failures = 0;
  const shaky = task<void, string>("shaky", { retry: { baseS: 10 } }, () => {
    if (failures++ < 2) throw new Error("not yet");
    return "done";
  });
  const jobs = await recording(async () => {
    await shaky.with({ delay: 3600 }).enqueue();
    await double.enqueue(1);
  });
  const runs = await drain(jobs);
  assert.deepEqual(runs.map(({ name, state, at, attempt }) => [name, state, at, attempt]), [
    ["double", "succeeded", 0, 1],
    ["shaky", "succeeded", 3630, 3],
  ]);
});

test("drain throws what the first job threw that failed for good", async () => {
  const broken = task("broken", { maxRetry: 1 }, () => {
    throw new RangeError("broken");
  });
  const jobs = await recording(() => broken.enqueue());
  await assert.rejects(drain(jobs), RangeError);
  const [run] = await recording(() => broken.enqueue()).then((others) => drain(others, { raises: false }));
  assert.deepEqual([run?.state, run?.failures], ["failed", 2]);
});

test("inline runs jobs at once, and handles have what production would keep", async () => {
  await inline(async () => {
    assert.equal(await (await double.enqueue(21)).result({ wait: 0 }), 42);
    const handle = await double.with({ keepResult: false }).enqueue(21);
    await assert.rejects(handle.result({ wait: 0 }), ResultNotKept);
  });
});

test("orders of handlers count as in production", async () => {
  let calls = 0;
  const later = task("later", () => {
    if (calls++ === 0) throw new Defer(30);
    throw new Discard("nothing left to do");
  });
  const coded = task("coded", { retryCodes: ["BUSY"] }, () => {
    throw new CodedError("GONE");
  });
  const jobs = await recording(async () => {
    await later.enqueue();
    await coded.enqueue();
  });
  const runs = await drain(jobs, { raises: false });
  assert.deepEqual(runs.map(({ name, state, at, attempt }) => [name, state, at, attempt]), [
    ["coded", "failed", 0, 1],
    ["later", "discarded", 30, 2],
  ]);
});

test("flows wait, hand on results, and are skipped where a master would skip them", async () => {
  await inline(async () => {
    const handles = await chord([double.job(1), double.job(2)], sum.job()).enqueue();
    assert.equal(await handles.last.result({ wait: 0 }), 6);
  });
  const broken = task("broken", { maxRetry: 0 }, () => {
    throw new Error("broken");
  });
  const jobs = await recording(() => chain(broken.job(), double.job(1)).enqueue());
  await drain(jobs, { raises: false });
  assert.deepEqual(jobs.map(({ state }) => state), ["failed", "skipped"]);
});

test("batches start their callbacks once", async () => {
  const jobs = await inline(async () => {
    const made = await batch({ onSuccess: double.job(10), onFailure: double.job(0) }, async (members) => {
      await double.with({ batch: members }).many([1, 2, 3]);
    });
    assert.deepEqual((await made.status()).state, "complete");
  }, { tasks: [double] });
  assert.deepEqual(jobs.of(double).map(({ args }) => args), [1, 2, 3, 10]);
});

test("checkpoints, progress, logs and jobs of handlers are kept", async () => {
  let attempts = 0;
  const crawl = task<void, number>("crawl", async (_, ctx) => {
    const from = (ctx.lastCheckpoint as number | undefined) ?? 0;
    ctx.log.info(`from ${from}`);
    ctx.progress(0.5, "half");
    await ctx.checkpoint(from + 1);
    if (attempts++ === 0) throw new Error("again");
    await ctx.enqueue(double, from);
    return from;
  });
  const jobs = await recording(() => crawl.enqueue());
  const runs = await drain(jobs);
  const run = jobs.only(crawl);
  assert.equal(run.result, 1);
  assert.deepEqual(run.log.map(({ text }) => text), ["from 0", "from 1"]);
  assert.deepEqual(run.progress, { fraction: 0.5, message: "half" });
  assert.deepEqual(runs.map(({ name }) => name), ["crawl", "double"]);
});

test("units that the last attempt used, and observed room, are kept", async () => {
  let attempts = 0;
  const ask = task<void>("ask", async (_, ctx) => {
    ctx.used({ tokens: 100, images: 1 });
    ctx.used({ tokens: 1812 });
    if (attempts++ === 0) throw new Error("again");
    ctx.used({ tokens: 900 });
    ctx.observed("model", { value: "acme", remaining: 41_000, resetsS: 12.5 });
    for (const wrong of [-1, NaN, 2e9]) assert.throws(() => { ctx.used({ tokens: wrong }); }, RangeError);
    assert.throws(() => { ctx.observed("model", { remaining: 1, resetsS: -1 }); }, RangeError);
  });
  const jobs = await recording(() => ask.enqueue());
  await drain(jobs);
  const run = jobs.only(ask);
  assert.deepEqual(run.used, { tokens: 900, images: 1 });
  assert.deepEqual(run.observed, [{ constraint: "model", value: "acme", remaining: 41_000, resetsS: 12.5 }]);
});

test("uniqueness keys refuse, or give the job that is there", async () => {
  await recording(async () => {
    const first = await double.with({ unique: { key: "a" } }).enqueue(1);
    await assert.rejects(double.with({ unique: { key: "a" } }).enqueue(1), NotUniqueError);
    const again = await double.with({ unique: { key: "a", onConflict: "existing" } }).enqueue(1);
    assert.deepEqual([again.id, again.isDuplicate], [first.id, true]);
  });
});
