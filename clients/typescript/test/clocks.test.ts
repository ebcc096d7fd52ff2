/** Offers and leases when a clock is set, and when the machine sleeps. */

import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { LatestClock, StoreClock } from "#dist/worker/clocks.js";
import { task } from "jqmaster-sdk";
import { LIVE, unique, withWorker } from "./support.js";

const HOUR_MS = 3_600_000;
/** The time of the store at the beginning, in milliseconds. */
const STORE_MS = 1_790_000_000_000;

/** Lets the wall clock of this process be ahead by `ms()`. */
function steppedBy(context: TestContext, ms: () => number): void {
  const real = Date.now;
  context.mock.method(Date, "now", () => real() + ms());
}

test("after a sleep, the time of the store is known again with the next answer", (context) => {
  let sleptMs = 0;
  steppedBy(context, () => sleptMs);
  const clock = new LatestClock();
  const store = new StoreClock(clock);
  assert.equal(store.latestMs(), Infinity);
  store.learn(STORE_MS, clock.instant(), 0);
  assert.ok(Math.abs(store.latestMs() - STORE_MS) < 100);
  sleptMs = HOUR_MS;
  // The worker cannot know whether the machine slept or its clock was set, so leases may have ended.
  assert.ok(store.latestMs() >= STORE_MS + HOUR_MS);
  assert.ok(store.earliestMs() < STORE_MS + 1000);
  store.learn(STORE_MS + HOUR_MS, clock.instant(), 0);
  assert.ok(Math.abs(store.latestMs() - STORE_MS - HOUR_MS) < 100);
  assert.ok(Math.abs(store.earliestMs() - STORE_MS - HOUR_MS) < 100);
});

test("a sleep between a call and its answer makes the store later, not earlier", (context) => {
  let sleptMs = 0;
  steppedBy(context, () => sleptMs);
  const clock = new LatestClock();
  const store = new StoreClock(clock);
  const sent = clock.instant();
  sleptMs = HOUR_MS;
  store.learn(STORE_MS, sent, 0);
  assert.ok(store.latestMs() >= STORE_MS + HOUR_MS);
});

test("the time of the store is unknown if it was not heard for a whole lease", (context) => {
  let sleptMs = 0;
  steppedBy(context, () => sleptMs);
  const clock = new LatestClock();
  const store = new StoreClock(clock);
  store.learn(STORE_MS, clock.instant(), 0);
  assert.ok(store.latestMs(15_000) < STORE_MS + 1000);
  sleptMs = 16_000;
  // The store's clock may have been set forward meanwhile.
  assert.equal(store.latestMs(15_000), Infinity);
  store.learn(STORE_MS + sleptMs, clock.instant(), 0);
  assert.ok(store.latestMs(15_000) < STORE_MS + sleptMs + 1000);
});

test("a clock that is set back changes nothing", (context) => {
  let setMs = 0;
  steppedBy(context, () => setMs);
  const clock = new LatestClock();
  const store = new StoreClock(clock);
  store.learn(STORE_MS, clock.instant(), 0);
  setMs = -HOUR_MS;
  assert.ok(Math.abs(store.latestMs() - STORE_MS) < 100);
});

for (const [way, setMs] of [["forward", HOUR_MS], ["back", -HOUR_MS]] as const) {
  test(`a worker whose clock is set ${way} goes on working`, LIVE, async (context) => {
    let byMs = 0;
    steppedBy(context, () => byMs);
    const echo = task<string, string>(unique(way), { keepResult: true, timeout: 60 }, (text) => text);
    // Use a worker that pulls: masters sign pushes with the time, so a pushed worker's clock would have to agree with
    // theirs.
    await withWorker(
      [echo],
      async () => {
        assert.equal(await (await echo.enqueue("before")).result({ wait: 60 }), "before");
        byMs = setMs;
        assert.equal(await (await echo.enqueue("after")).result({ wait: 60 }), "after");
      },
      { pull: true },
    );
  });
}

test("a worker that is pushed to outlives a step that signatures allow", LIVE, async (context) => {
  let byMs = 0;
  steppedBy(context, () => byMs);
  const echo = task<string, string>(unique("step"), { keepResult: true, timeout: 60 }, (text) => text);
  await withWorker([echo], async () => {
    assert.equal(await (await echo.enqueue("before")).result({ wait: 60 }), "before");
    byMs = 120_000;
    assert.equal(await (await echo.enqueue("after")).result({ wait: 60 }), "after");
  });
});
