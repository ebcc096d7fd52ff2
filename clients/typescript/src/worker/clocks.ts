/** The clock of this process, and the clock of the store. Only the store's time counts for offers and leases. */

/** How fast two clocks may drift apart, as a fraction of the time. */
const DRIFT = 0.0005;
/** If the wall clock advances by this much more than the monotonic clock, the machine has slept. */
const SLEEP_MS = 500;

/** Returns milliseconds that never go back. They do not advance while the machine sleeps. */
export function steadyMs(): number {
  return performance.now();
}

/** An instant of this process: its time on the monotonic clock, and how long the machine had slept before it. */
export interface Instant {
  readonly steadyMs: number;
  readonly sleptMs: number;
}

/** The clock of this process, including the time that the machine slept, because leases continue meanwhile. */
export class LatestClock {
  #sleptMs = 0;
  #leadMs = Date.now() - steadyMs();

  /** Returns the latest time that it may be now. Use it to decide whether a lease or a timeout has ended. */
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
  /** How long the machine had slept before the call. Only a later sleep makes the bounds too early. */
  readonly sleptMs: number;
  readonly lowMs: number;
  readonly highMs: number;
}

/** The time of the store, computed from the answers of masters, with the round trip of each answer as its error. */
export class StoreClock {
  /** Offers with this fence or a lower one were made before the store's clock was set back. */
  staleFence = 0;
  #bounds: Bounds | undefined;

  constructor(private readonly clock: LatestClock) {}

  /** Uses the time in an answer to a call that was sent at `sent`. */
  learn(storeMs: number, sent: Instant, fence: number): void {
    const atMs = steadyMs();
    let [lowMs, highMs] = [storeMs - atMs, storeMs + 1 - sent.steadyMs];
    let wentBack = false;
    const known = this.#widened(atMs);
    if (known !== undefined) {
      wentBack = highMs < known.lowMs;
      const [low, high] = [Math.max(lowMs, known.lowMs), Math.min(highMs, known.highMs)];
      // Bounds from before a sleep say nothing about the time after the sleep.
      if (known.sleptMs === sent.sleptMs && low <= high) [lowMs, highMs] = [low, high];
    }
    this.staleFence = wentBack ? fence : Math.min(this.staleFence, fence);
    this.#bounds = { atMs, sleptMs: sent.sleptMs, lowMs, highMs };
  }

  /**
   * Returns the latest time that the store's clock may show; infinite if no answer of the last `withinMs` contained it.
   */
  latestMs(withinMs = Infinity): number {
    const now = this.clock.instant();
    const known = this.#widened(now.steadyMs);
    if (known === undefined || this.#bounds === undefined) return Infinity;
    const sleptMs = now.sleptMs - known.sleptMs;
    if (now.steadyMs - this.#bounds.atMs + sleptMs > withinMs) return Infinity;
    return now.steadyMs + sleptMs + known.highMs;
  }

  /**
   * Returns the latest time that the store's clock may have shown at an instant of the latest clock; infinite if it is
   * not known yet.
   */
  latestAtMs(atMs: number): number {
    return this.latestMs() - (this.clock.nowMs() - atMs);
  }

  /** Returns a time that the store's clock has certainly reached. */
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

/** Returns how many milliseconds before the end of a lease a job is stopped. */
export function marginMs(leaseMs: number): number {
  return Math.min(2000, leaseMs / 10);
}
