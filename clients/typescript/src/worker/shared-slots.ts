/**
 * Shares the slots of a worker among several namespaces: each namespace has a guaranteed share, and idle slots are lent
 * to other namespaces.
 */

import { checkNamespace } from "../masters/namespaces.js";

const MAX_NAMESPACES = 20;
const MAX_SHARE = 1_000;
/**
 * How long a slot is reserved for a namespace if its jobs were refused while it had less than its share. Masters offer
 * these jobs again within two seconds.
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
 * Divides all slots of a worker in proportion to the shares, with at least one slot for each namespace.
 *
 * @throws RangeError if there are fewer slots than namespaces.
 */
export function slotsByNamespace(shares: ReadonlyMap<string, number>, maxJobs: number): ReadonlyMap<string, number> {
  if (shares.size > maxJobs) throw new RangeError(`maxJobs is ${maxJobs}, but each of ${shares.size} namespaces needs at least one slot`);
  const all = [...shares].map(([name, share]) => ({ name, share, slots: 1 }));
  // Each namespace gets one slot. The remaining slots go one by one to the namespace that is furthest below its share.
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

  /** Adds a namespace that gets this many slots whenever it needs them, and returns its share. */
  add(guaranteed: number): SlotShare {
    const share = new SlotShare(this, guaranteed);
    this.shares.push(share);
    return share;
  }
}

/** The slots of one namespace. */
export class SlotShare {
  /** Returns how many slots the jobs of this namespace occupy. */
  occupied: () => number = () => 0;
  /** Called when a slot of another namespace becomes free. */
  onRoom: () => void = () => undefined;
  /** Called when another namespace needs slots that this namespace uses above its share. */
  onPressure: () => void = () => undefined;
  /** The number of jobs that was last reported to masters. */
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

  /** How many free slots are reserved for this namespace, because its jobs were refused for lack of slots. */
  get wanted(): number {
    if (this.#wanted === 0 || this.pool.nowMs() >= this.#wantedUntilMs) return 0;
    return Math.max(0, Math.min(this.#wanted, this.guaranteed - this.occupied()));
  }

  /** Whether the next free slot of this namespace must go to another namespace. */
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
   * Returns how many jobs masters may assign: the share, and the slots that other namespaces leave idle. Several
   * namespaces may be offered the same idle slot: the first job gets it, and the other jobs are refused as `busy`.
   */
  offer(): number {
    const used = sum(this.#others.map((one) => one.occupied() + one.wanted));
    this.lastOffered = Math.max(this.guaranteed, this.total - used);
    return this.lastOffered;
  }

  /** Reserves up to `count` of the next free slots, within the share, for at most `withinMs`. 0: reserves none. */
  want(count: number, withinMs = WANTED_MS): void {
    const wasWanted = this.wanted > 0;
    this.#wanted = count;
    this.#wantedUntilMs = this.pool.nowMs() + withinMs;
    if (wasWanted || this.wanted === 0) return;
    for (const one of this.#others) if (one.occupied() > one.guaranteed) one.onPressure();
  }

  /** Notifies the other namespaces that a slot may be free. */
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
