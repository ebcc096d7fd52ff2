/** One worker in several namespaces, at a master that has `shop` and `mail`. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { Pusher, RefusedError, Worker, task, type AnyTask, type JobHandle, type WorkerOptions } from "jqmaster-sdk";
import { LIVE, MASTER, SILENT, unique, until } from "./support.js";

const shop = new Pusher({ master: MASTER, namespace: "shop" });
const mail = new Pusher({ master: MASTER, namespace: "mail" });

async function withBoth(tasks: readonly AnyTask[], run: (worker: Worker) => Promise<void>, options: Partial<WorkerOptions> = {}): Promise<void> {
  const worker = new Worker({ tasks, master: MASTER, namespaces: { shop: 3, mail: 1 }, maxJobs: 4, signals: false, logger: SILENT, grace: 1, ...options });
  await (options.pull === true ? worker.start() : worker.listen());
  try {
    await until(() => Object.keys(worker.ids).length === 2);
    await run(worker);
  } finally {
    await worker.stop();
  }
}

async function viewOf(namespace: string, path: string): Promise<Record<string, unknown>> {
  const answer = await fetch(`${MASTER}/ns/${namespace}/api/${path}`, { headers: { Accept: "application/json" } });
  return (await answer.json()) as Record<string, unknown>;
}

/** A task with jobs that run until the test releases them. */
class Held {
  readonly running = new Map<string, () => void>();
  readonly task = task<number>(unique("hold"), { timeout: 60, maxRetry: 0 }, async (_, ctx) => {
    await new Promise<void>((resolve) => {
      this.running.set(ctx.jobId, resolve);
      ctx.signal.addEventListener("abort", () => {
        resolve();
      });
    });
    this.running.delete(ctx.jobId);
  });

  enqueue(pusher: Pusher, count: number): Promise<JobHandle[]> {
    return Promise.all(Array.from({ length: count }, (_, index) => pusher.enqueue(this.task, index)));
  }

  runs = (handle: JobHandle): boolean => this.running.has(handle.id);

  release(handles: readonly JobHandle[]): void {
    for (const { id } of handles) this.running.get(id)?.();
  }
}

for (const pull of [false, true]) {
  const way = pull ? "pulls" : "is pushed to";

  test(`a worker that ${way} runs the jobs of several namespaces`, LIVE, async () => {
    const child = task<string, string>(unique("child"), { keepResult: true }, (text, ctx) => `${text} in ${ctx.namespace}`);
    const parent = task<string, string[]>(unique("parent"), { keepResult: true }, async (text, ctx) => {
      const handles = [await ctx.enqueue(child, text), await child.enqueue(text), await child.with({ namespace: "mail" }).enqueue(text)];
      return handles.map(({ id }) => id);
    });
    await withBoth([parent, child], async (worker) => {
      assert.deepEqual(Object.keys(worker.ids), ["shop", "mail"]);
      assert.equal(worker.id, worker.ids["shop"]);
      for (const [name, pusher] of [["shop", shop], ["mail", mail]] as const) {
        const ids = (await (await pusher.enqueue(parent, "x")).result({ wait: 60 })) as string[];
        const results = await Promise.all(ids.slice(0, 2).map((id) => pusher.handle(id).result({ wait: 60 })));
        assert.deepEqual(results, [`x in ${name}`, `x in ${name}`]);
        assert.equal(await mail.handle(ids[2] ?? "").result({ wait: 60 }), "x in mail");
        const { workers } = (await viewOf(name, "workers")) as { workers: { id: string; url: string | null }[] };
        assert.deepEqual(workers.map(({ id }) => id), [worker.ids[name]]);
        if (pull) assert.equal(workers[0]?.url, null);
        else assert.match(workers[0]?.url ?? "", new RegExp(`/ns/${name}$`));
      }
    }, { pull });
    for (const name of ["shop", "mail"]) assert.deepEqual((await viewOf(name, "workers"))["workers"], []);
  });

  test(`a namespace gets its share from one that uses idle slots, if the worker ${way}`, LIVE, async () => {
    const held = new Held();
    await withBoth([held.task], async () => {
      // The idle slots of the other namespace are lent.
      const lent = await held.enqueue(mail, 4);
      await until(() => lent.every(held.runs));
      const waiting = await held.enqueue(mail, 4);
      const wanted = await held.enqueue(shop, 3);
      // Wait for offers that are refused.
      await new Promise((resolve) => setTimeout(resolve, 500));
      assert.equal(held.running.size, 4);
      held.release(lent.slice(0, 3));
      await until(() => wanted.every(held.runs));
      assert.equal(waiting.some(held.runs), false);
      held.release(lent.slice(3));
      await until(() => waiting.some(held.runs));
      held.release(wanted);
      // Refused offers do not count as retries or losses.
      for (const handle of wanted) {
        await until(async () => (await handle.refresh()).state === "succeeded");
        assert.equal((await handle.refresh()).attempt, 1);
      }
      await until(() => waiting.every(held.runs));
      held.release(waiting);
      await until(async () => (await Promise.all(waiting.map((handle) => handle.refresh()))).every(({ state }) => state === "succeeded"));
    }, { pull });
  });
}

test("masters learn how many jobs a namespace may have, and an operator bounds them", LIVE, async () => {
  const held = new Held();
  await withBoth([held.task], async ({ ids }) => {
    const slots = async (name: string) => (await viewOf(name, `workers/${ids[name] ?? ""}`))["max_jobs"];
    const both = async () => [await slots("shop"), await slots("mail")].join(" ");
    assert.equal(await both(), "4 4");
    const running = await held.enqueue(shop, 2);
    await until(async () => (await both()) === "4 2");
    const body = JSON.stringify({ max_jobs: 2 });
    const set = await fetch(`${MASTER}/ns/mail/api/workers/${ids["mail"] ?? ""}/slots`, { method: "POST", body, headers: { "Content-Type": "application/json" } });
    assert.equal(set.status, 200);
    held.release(running);
    await until(async () => (await both()) === "4 2" && held.running.size === 0);
    const [first, second, third] = await held.enqueue(mail, 3);
    await until(() => held.running.size === 2);
    await new Promise((resolve) => setTimeout(resolve, 500));
    assert.equal(held.running.size, 2);
    for (const handle of [first, second, third]) {
      await until(() => handle !== undefined && held.runs(handle));
      held.release(handle === undefined ? [] : [handle]);
    }
  });
});

test("a namespace that refuses the worker holds up no other", LIVE, async () => {
  const echo = task<string, string>(unique("echo"), { keepResult: true }, (text) => text);
  const errors: string[] = [];
  const logger = { ...SILENT, error: (text: string) => errors.push(text) };
  const options = { tasks: [echo], master: MASTER, maxJobs: 2, signals: false, logger, grace: 0, pull: true };
  const worker = new Worker({ ...options, namespaces: ["no-such-one", "shop"] });
  await worker.start();
  try {
    assert.deepEqual(Object.keys(worker.ids), ["shop"]);
    assert.equal(await (await shop.enqueue(echo, "x")).result({ wait: 60 }), "x");
    await until(() => errors.length > 0);
    assert.match(errors[0] ?? "", /^no-such-one: not registered, and trying again: /);
  } finally {
    await worker.stop();
  }
  await assert.rejects(new Worker({ ...options, namespaces: ["no-such-one", "nor-this"] }).start(), RefusedError);
});

test("a job that is not enqueued yet has no namespace, and faulty options are refused", () => {
  const work = task("work", () => null);
  assert.throws(() => work.with({ namespace: "Mail" }), /2 to 39 of the characters/);
  assert.throws(() => work.with({ namespace: "mail" }).job(), /belongs to no namespace/);
  const options = { tasks: [work], signals: false, logger: SILENT };
  assert.throws(() => new Worker({ ...options, namespace: "shop", namespaces: ["shop"] }), /and not both/);
  assert.throws(() => new Worker({ ...options, namespaces: ["shop", "mail"], master: "http://a/ns/shop" }), /give the address without \/ns\/shop/);
  assert.throws(() => new Worker({ ...options, namespaces: ["shop", "mail"], maxJobs: 1 }), /needs at least one slot/);
});

test("the variable names namespaces", () => {
  const former = process.env["JQMASTER_WORKER_NAMESPACES"];
  const worker = (options: Partial<WorkerOptions> = {}) => new Worker({ tasks: [task("work", () => null)], master: "http://a", signals: false, logger: SILENT, ...options });
  try {
    process.env["JQMASTER_WORKER_NAMESPACES"] = "shop=3 mail";
    assert.throws(() => worker({ maxJobs: 1 }), /maxJobs is 1, but each of 2 namespaces/);
    // The code takes precedence over the variable.
    worker({ maxJobs: 1, namespace: "shop" });
    process.env["JQMASTER_WORKER_NAMESPACES"] = "shop=x";
    assert.throws(() => worker(), /share of shop must be an integer/);
    process.env["JQMASTER_WORKER_NAMESPACES"] = "shop shop=2";
    assert.throws(() => worker(), /named twice/);
  } finally {
    if (former === undefined) delete process.env["JQMASTER_WORKER_NAMESPACES"];
    else process.env["JQMASTER_WORKER_NAMESPACES"] = former;
  }
});
