/** Reports about calls to services with limits. */

import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { decode } from "#dist/wire/msgpack.js";
import { Challenged, Defer, task, type Context } from "jqmaster-sdk";
import { LIVE, MASTER, unique, withWorker } from "./support.js";

type Item = Readonly<Record<string, unknown>>;

/** Runs a function while a server passes calls on to the master. It refuses some reports, as older masters do. */
async function withReports(refused: readonly string[], run: (master: string, items: readonly Item[]) => Promise<void>): Promise<void> {
  const items: Item[] = [];
  const server = createServer((request, response) => {
    void (async () => {
      const parts: Uint8Array[] = [];
      for await (const part of request) parts.push(part as Uint8Array);
      const body = Buffer.concat(parts);
      const headers = Object.entries(request.headers).filter(([name]) => !["host", "connection", "content-length", "transfer-encoding"].includes(name));
      if (request.url?.endsWith("/results") === true) {
        const told = (decode(body) as { results: Item[] }).results;
        items.push(...told);
        if (told.some((item) => refused.some((field) => field in item))) {
          response.writeHead(422, { "content-type": "application/problem+json" }).end('{"status": 422, "code": "invalid", "detail": "unknown field"}');
          return;
        }
      }
      const answer = await fetch(MASTER + (request.url ?? ""), {
        method: request.method ?? "GET",
        headers: headers as [string, string][],
        ...(body.length > 0 ? { body } : {}),
      });
      response.writeHead(answer.status, { "content-type": answer.headers.get("content-type") ?? "" });
      response.end(Buffer.from(await answer.arrayBuffer()));
    })().catch(() => response.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    await run(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, items);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

/** Returns the first report of a job. */
async function reportOf(id: string, items: readonly Item[]): Promise<Item> {
  for (;;) {
    const item = items.find(({ job_id }) => job_id === id);
    if (item !== undefined) return item;
    await sleep(5);
  }
}

/** Calls a service in one of the ways of a handler. */
async function ask(how: string, ctx: Context): Promise<string> {
  if (how === "slow") await sleep(2_600);
  if (how === "observes") ctx.observed("no-such-constraint", { remaining: 5, resetsS: 1 });
  else if (how !== "nothing") ctx.used({ tokens: 7 });
  if (how === "fails") throw new Error("no answer");
  if (how === "later") throw new Defer(0.01);
  if (how === "hands over") {
    const { requestId } = await ctx.openChallenge({ answerWithin: 60 });
    throw new Challenged(requestId);
  }
  return how;
}

test("a report tells by when a service had counted the call: two seconds after the handler began at the latest", LIVE, async () => {
  const asking = task<string, string>(unique("ask"), { keepResult: true, maxRetry: 0 }, ask);
  await withReports([], async (master, items) => {
    await withWorker([asking], async () => {
      const told = async (how: string, from: number) => {
        const { id } = await asking.enqueue(how);
        const item = await reportOf(id, items);
        const calledMs = item["called_at_ms"] as number;
        if (how !== "nothing" && how !== "hands over") {
          assert.ok(Number.isSafeInteger(calledMs), how);
          assert.ok(calledMs >= from && calledMs <= Date.now() + 200, `${how}: ${calledMs - from}`);
        }
        return item;
      };
      for (const how of ["quick", "fails", "later"]) assert.deepEqual((await told(how, Date.now()))["used"], { tokens: 7 });
      assert.ok(!("used" in (await told("observes", Date.now()))));
      for (const how of ["nothing", "hands over"]) {
        const item = await told(how, Date.now());
        assert.ok(!("used" in item || "called_at_ms" in item), how);
      }
      const slow = await told("slow", Date.now());
      assert.ok((slow["called_at_ms"] as number) <= Date.parse(slow["finished_at"] as string) - 400);
    }, { master, pull: true });
  });
});

test("a master that refuses a field gets the report without it, and the fields that it knows", LIVE, async () => {
  const asking = task<string, string>(unique("ask"), { keepResult: true, maxRetry: 0 }, ask);
  for (const refused of [["called_at_ms"], ["called_at_ms", "used"]]) {
    await withReports(refused, async (master, items) => {
      await withWorker([asking], async () => {
        for (const how of ["quick", "observes"]) {
          const job = await asking.enqueue(how);
          assert.equal(await job.result({ wait: 60 }), how);
          const last = items.filter(({ job_id }) => job_id === job.id).at(-1);
          assert.equal(last?.["type"], "success");
          assert.deepEqual(last["used"], how === "quick" && refused.length === 1 ? { tokens: 7 } : undefined);
        }
        await assert.rejects((await asking.enqueue("fails")).result({ wait: 60 }), /no answer/);
      }, { master, pull: true });
    });
  }
});
