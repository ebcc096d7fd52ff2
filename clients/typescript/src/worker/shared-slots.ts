/** The slots of a worker that works in several namespaces: a guaranteed share for each, and idle slots lent to the others. */

import { checkNamespace } from "../masters/namespaces.js";

const MAX_NAMESPACES = 20;
const MAX_SHARE = 1_000;
/**
 * How long a slot is kept for a namespace whose jobs were refused while it had less than its share. Masters offer them
 * again within two seconds.
 */
const WANTED_MS = 5_000;

/**
 * Namespaces and their shares of the slots. A list gives equal shares.
 *
 * @example
 * ```ts
 * const namespaces: NamespaceShares = { shop: 3, mail: 1 };
 * ```
 */
export type NamespaceShares = readonly string[] | Readonly<Record<string, number>>;

/**
 * Returns the shares by namespace.
 *
 * @throws TypeError that names the option `namespaces`.
 */
export function checkedShares(given: NamespaceShares): ReadonlyMap<string, number> {
  const isList = Array.isArray(given);
  const shares = new Map<string, number>(isList ? (given as readonly string[]).map((name) => [name, 1]) : Object.entries(given));
  if (shares.size === 0) throw new TypeError("namespaces: name at least one namespace");
  if (isList && shares.size < given.length) throw new TypeError("namespaces: one of them is named twice");
  if (shares.size > MAX_NAMESPACES) {
    throw new TypeError(`namespaces: ${shares.size} are given, and one worker works in ${MAX_NAMESPACES} at most: start another worker for the others`);
  }
  for (const [name, share] of shares) {
    checkNamespace(name);
    if (!Number.isInteger(share) || share < 1 || share > MAX_SHARE) {
      throw new TypeError(`namespaces: the share of ${name} must be an integer from 1 to ${MAX_SHARE}, not ${String(share)}`);
    }
  }
  return shares;
}

/**
 * Divides the slots of a worker: in proportion to the shares, at least one for each namespace, and all of them.
 *
 * @throws RangeError if there are too few.
 */
export function slotsByNamespace(shares: ReadonlyMap<string, number>, maxJobs: number): ReadonlyMap<string, number> {
  if (shares.size > maxJobs) throw new RangeError(`maxJobs is ${maxJobs}, and each of ${shares.size} namespaces needs at least one slot`);
  const all = [...shares].map(([name, share]) => ({ name, share, slots: 1 }));
  // Each has one slot, and the others go one by one to the namespace that is furthest below its share.
  for (let left = maxJobs - all.length; left > 0; left--) {
    const next = all.reduce((first, one) => {
      const difference = one.slots / one.share - first.slots / first.share;
      return difference < 0 || (difference === 0 && one.share > first.share) ? one : first;
    });
    next.slots += 1;
  }
  return new Map(all.map(({ name, slots }) => [name, slots]));
}

/** All slots of a worker. */
export class SharedSlots {
  readonly shares: SlotShare[] = [];

  constructor(
    readonly total: number,
    readonly nowMs: () => number = () => performance.now(),
  ) {}

  /** Returns the share of one more namespace, which has this many slots whenever it needs them. */
  add(guaranteed: number): SlotShare {
    const share = new SlotShare(this, guaranteed);
    this.shares.push(share);
    return share;
  }
}

/** The slots of one namespace. */
export class SlotShare {
  /** Returns how many slots the jobs of this namespace have. */
  occupied: () => number = () => 0;
  /** Called when a slot of another namespace became free. */
  onRoom: () => void = () => undefined;
  /** Called when another namespace wants the slots that this one has beyond its share. */
  onPressure: () => void = () => undefined;
  /** The number of jobs that masters were told last. */
  lastOffered: number;
  #wanted = 0;
  #wantedUntilMs = 0;

  constructor(
    private readonly pool: SharedSlots,
    readonly guaranteed: number,
  ) {
    this.lastOffered = pool.total;
  }

  get total(): number {
    return this.pool.total;
  }

  /** How many free slots are kept for this namespace, because its jobs were refused for lack of them. */
  get wanted(): number {
    if (this.#wanted === 0 || this.pool.nowMs() >= this.#wantedUntilMs) return 0;
    return Math.max(0, Math.min(this.#wanted, this.guaranteed - this.occupied()));
  }

  /** Whether a slot that becomes free is for another namespace. */
  get hasToYield(): boolean {
    return this.occupied() > this.guaranteed && this.#others.some(({ wanted }) => wanted > 0);
  }

  /** How many more jobs may start now. */
  get room(): number {
    const free = this.total - sum(this.pool.shares.map((one) => one.occupied()));
    const kept = sum(this.#others.map(({ wanted }) => wanted));
    return Math.max(0, Math.min(free, Math.max(this.guaranteed - this.occupied(), free - kept)));
  }

  /**
   * Returns how many jobs masters may give: the share, and the slots that other namespaces leave idle. Several namespaces
   * may be offered the same idle slot: the first job gets it, and the others are refused as `busy`.
   */
  offer(): number {
    const used = sum(this.#others.map((one) => one.occupied() + one.wanted));
    this.lastOffered = Math.max(this.guaranteed, this.total - used);
    return this.lastOffered;
  }

  /** Keeps up to `count` of the next free slots, within the share, for so long at most. 0: keeps none. */
  want(count: number, withinMs = WANTED_MS): void {
    const wasWanted = this.wanted > 0;
    this.#wanted = count;
    this.#wantedUntilMs = this.pool.nowMs() + withinMs;
    if (wasWanted || this.wanted === 0) return;
    for (const one of this.#others) if (one.occupied() > one.guaranteed) one.onPressure();
  }

  /** Tells the other namespaces that a slot may be free. */
  released(): void {
    for (const one of this.#others) one.onRoom();
  }

  get #others(): SlotShare[] {
    return this.pool.shares.filter((one) => one !== this);
  }
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, one) => total + one, 0);
}
