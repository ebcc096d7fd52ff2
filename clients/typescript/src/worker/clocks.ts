/** Time: that of this process, and that of the store, which alone counts for offers and leases. */

/** How fast two clocks may drift apart. */
const DRIFT = 0.0005;
/** A wall clock that advances by this much more than the monotonic one has seen the machine sleep. */
const SLEEP_MS = 500;

/** Returns milliseconds that never go back. They stand still while the machine sleeps. */
export function steadyMs(): number {
  return performance.now();
}

/** An instant of this process: on its monotonic clock, and how long the machine had slept by then. */
export interface Instant {
  readonly steadyMs: number;
  readonly sleptMs: number;
}

/** The clock of this process, with what the machine slept: leases go on meanwhile. */
export class LatestClock {
  #sleptMs = 0;
  #leadMs = Date.now() - steadyMs();

  /** Returns the latest time that it may be, for everything that ends. */
  nowMs(): number {
    const { steadyMs: atMs, sleptMs } = this.instant();
    return atMs + sleptMs;
  }

  instant(): Instant {
    const leadMs = Date.now() - steadyMs();
    if (leadMs > this.#leadMs + SLEEP_MS) this.#sleptMs += leadMs - this.#leadMs;
    this.#leadMs = leadMs;
    return { steadyMs: steadyMs(), sleptMs: this.#sleptMs };
  }
}

interface Bounds {
  readonly atMs: number;
  /** The time that the machine had slept before the call: only a later sleep makes the bounds too early. */
  readonly sleptMs: number;
  readonly lowMs: number;
  readonly highMs: number;
}

/** The time of the store, as the answers of masters tell it: each within its round trip. */
export class StoreClock {
  /** Offers with this fence or a lower one were made before the store's clock was set back. */
  staleFence = 0;
  #bounds: Bounds | undefined;

  constructor(private readonly clock: LatestClock) {}

  /** Takes the time of an answer to a call that was sent at `sent`. */
  learn(storeMs: number, sent: Instant, fence: number): void {
    const atMs = steadyMs();
    let [lowMs, highMs] = [storeMs - atMs, storeMs + 1 - sent.steadyMs];
    let wentBack = false;
    const known = this.#widened(atMs);
    if (known !== undefined) {
      wentBack = highMs < known.lowMs;
      const [low, high] = [Math.max(lowMs, known.lowMs), Math.min(highMs, known.highMs)];
      // Bounds of before a sleep say nothing about the time after it.
      if (known.sleptMs === sent.sleptMs && low <= high) [lowMs, highMs] = [low, high];
    }
    this.staleFence = wentBack ? fence : Math.min(this.staleFence, fence);
    this.#bounds = { atMs, sleptMs: sent.sleptMs, lowMs, highMs };
  }

  /** Returns the latest store time that it may be; infinite if no answer of the last `withinMs` told it. */
  latestMs(withinMs = Infinity): number {
    const now = this.clock.instant();
    const known = this.#widened(now.steadyMs);
    if (known === undefined || this.#bounds === undefined) return Infinity;
    const sleptMs = now.sleptMs - known.sleptMs;
    if (now.steadyMs - this.#bounds.atMs + sleptMs > withinMs) return Infinity;
    return now.steadyMs + sleptMs + known.highMs;
  }

  /** Returns the latest store time that it may have been at an instant of the latest clock; infinite if nothing is known yet. */
  latestAtMs(atMs: number): number {
    return this.latestMs() - (this.clock.nowMs() - atMs);
  }

  /** Returns a store time that has certainly been reached. */
  earliestMs(): number {
    const known = this.#widened(steadyMs());
    return known === undefined ? 0 : Math.max(0, Math.floor(steadyMs() + known.lowMs));
  }

  #widened(atMs: number): Bounds | undefined {
    if (this.#bounds === undefined) return undefined;
    const drift = (atMs - this.#bounds.atMs) * DRIFT;
    return { atMs, sleptMs: this.#bounds.sleptMs, lowMs: this.#bounds.lowMs - drift, highMs: this.#bounds.highMs + drift };
  }
}

/** Returns how long before the end of a lease a job is stopped. */
export function marginMs(leaseMs: number): number {
  return Math.min(2000, leaseMs / 10);
}
