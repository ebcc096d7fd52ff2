import assert from "node:assert/strict";
import { test } from "node:test";
import { SharedSlots, checkedShares, slotsByNamespace, type NamespaceShares, type SlotShare } from "#dist/worker/shared-slots.js";

/** Returns shares of slots. A test sets the numbers of their running jobs. */
function sharing(total: number, ...guaranteed: number[]): { shares: SlotShare[]; running: number[]; clock: { ms: number } } {
  const clock = { ms: 0 };
  const slots = new SharedSlots(total, () => clock.ms);
  const shares = guaranteed.map((count) => slots.add(count));
  const running = shares.map(() => 0);
  shares.forEach((share, index) => {
    share.occupied = () => running[index] ?? 0;
  });
  return { shares, running, clock };
}

test("slots are divided by the shares", () => {
  const cases: [Record<string, number>, number, number[]][] = [
    [{ shop: 3, mail: 1 }, 4, [3, 1]],
    [{ shop: 3, mail: 1 }, 8, [6, 2]],
    [{ shop: 3, mail: 1 }, 10, [7, 3]],
    [{ shop: 1, mail: 1 }, 5, [3, 2]],
    // Each namespace gets at least one slot.
    [{ shop: 1000, mail: 1 }, 2, [1, 1]],
    [{ shop: 1000, mail: 1 }, 50, [49, 1]],
  ];
  for (const [shares, maxJobs, slots] of cases) assert.deepEqual([...slotsByNamespace(checkedShares(shares), maxJobs).values()], slots);
  assert.throws(() => slotsByNamespace(checkedShares(["shop", "mail"]), 1), /maxJobs is 1, but each of 2 namespaces needs at least one slot/);
});

test("faulty shares are refused", () => {
  const cases: [unknown, RegExp][] = [
    [[], /at least one/],
    [{}, /at least one/],
    [["shop", "shop"], /named twice/],
    [["Shop"], /2 to 39 of the characters/],
    [{ shop: 0 }, /share of shop must be an integer from 1 to 1000, not 0/],
    [{ shop: 1.5 }, /not 1.5/],
    [{ shop: "3" }, /not 3/],
    [Array.from({ length: 21 }, (_, index) => `team-${index}`), /21 are given, and one worker works in 20 at most/],
  ];
  for (const [given, message] of cases) assert.throws(() => checkedShares(given as NamespaceShares), message);
});

test("idle slots are lent, and kept for a namespace whose jobs were refused", () => {
  const { shares, running, clock } = sharing(4, 3, 1);
  const [shop, mail] = shares as [SlotShare, SlotShare];
  const told: string[] = [];
  mail.onPressure = () => told.push("pressure");
  mail.onRoom = () => told.push("room");
  assert.deepEqual([shop.offer(), mail.offer(), shop.room, mail.room], [4, 4, 4, 4]);
  running[1] = 4;
  assert.deepEqual([shop.offer(), mail.offer(), shop.room, mail.room], [3, 4, 0, 0]);
  shop.want(5);
  assert.deepEqual([shop.wanted, mail.hasToYield, told], [3, true, ["pressure"]]);
  // Free slots go to the namespace up to its share, even if another namespace waits.
  running[1] = 2;
  assert.deepEqual([shop.room, mail.room, mail.offer()], [2, 0, 1]);
  running[0] = 3;
  running[1] = 0;
  assert.deepEqual([shop.room, mail.room, shop.wanted], [1, 1, 0]);
  running[0] = 0;
  shop.want(1);
  clock.ms += 5_000;
  assert.deepEqual([shop.wanted, mail.room], [0, 4]);
  shop.released();
  assert.equal(told.at(-1), "room");
});
