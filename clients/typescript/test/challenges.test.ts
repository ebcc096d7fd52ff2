import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { setTimeout as sleep } from "node:timers/promises";
import { CodedError, Defer, challengeTask, type ChallengeContext, type PrepareChallenger } from "jqmaster-sdk";
import { drain, recording } from "jqmaster-sdk/testing";
import { LIVE, MASTER } from "./support.js";

interface Args {
  readonly order: number;
}
type Answer = { readonly tracking: string } | { readonly error: string };

const seen: ChallengeContext<Args>[] = [];
let fullTimes = 0;

class Ship implements PrepareChallenger<Args, Answer, string> {
  readonly retryCodes = ["BUSY"];

  constructor(private readonly args: Args) {}

  prepare() {
    return fullTimes-- > 0 ? new Defer(30, { reason: "full" }) : true;
  }

  async challenge(ctx: ChallengeContext<Args>) {
    seen.push(ctx);
    if (this.args.order === 99) await sleep(10_000, undefined, { signal: ctx.signal });
  }

  onCallback(answer: Answer) {
    if ("error" in answer) throw new CodedError(answer.error);
    return `${this.args.order}: ${answer.tracking}`;
  }
}

const ship = challengeTask<Args, Answer, string>("order.ship", { challengeTimeout: 0.05, maxRetry: 2 }, Ship);

test("a challenge is handed over, and its answer is the end of the job", async () => {
  seen.length = 0;
  const jobs = await recording(() => ship.enqueue({ order: 7 }));
  assert.deepEqual(await drain(jobs), []);
  const run = jobs.only(ship);
  assert.equal(run.state, "awaiting_callback");
  assert.equal(seen[0]?.requestId, run.challenges[0]?.requestId);
  assert.equal(seen[0]?.idempotencyKey, run.id);
  run.callback({ tracking: "T-7" });
  await drain(jobs);
  assert.deepEqual([run.state, run.result], ["succeeded", "7: T-7"]);
});

test("retry codes decide: one among them is retried by a new challenge, another is final", async () => {
  const jobs = await recording(() => ship.enqueue({ order: 7 }));
  const run = jobs.only(ship);
  await drain(jobs);
  run.callback({ error: "BUSY" });
  await drain(jobs);
  assert.deepEqual([run.state, run.failures, run.challenges.length], ["awaiting_callback", 1, 2]);
  run.callback({ error: "GONE" });
  await drain(jobs, { raises: false });
  assert.deepEqual([run.state, run.outcome?.type === "failure" && run.outcome.code], ["failed", "GONE"]);
});

test("work that cannot begin yet waits, and uses no retry", async () => {
  fullTimes = 3;
  const jobs = await recording(() => ship.enqueue({ order: 7 }));
  const run = jobs.only(ship);
  await drain(jobs);
  assert.deepEqual([run.state, run.failures], ["awaiting_callback", 0]);
  assert.deepEqual([run.attempt, run.at], [4, 90]);
});

test("a phase has a time of its own", async () => {
  const jobs = await recording(() => ship.with({ maxRetry: 0 }).enqueue({ order: 99 }));
  await assert.rejects(drain(jobs), /challenge did not end within 0\.05 s/);
});

test("the example of orders balances its ledger", LIVE, async () => {
  const main = fileURLToPath(new URL("../examples/orders/main.js", import.meta.url));
  const { stdout } = await promisify(execFile)(process.execPath, [main, "20"], { env: { ...process.env, JQMASTER_URL: MASTER } });
  assert.match(stdout, /18 orders were carried out, and 2 were refused\nthe ledger balances/);
});
