/** The addresses of masters, and the choice of the master to call. */

import { NoAnswerError, type MasterAnswer } from "./answer.js";
import { STORE_HEADER, StoreAffinity } from "./store-affinity.js";

/** For how long a master of another store is tried last, because it cannot help. */
const AVOIDED_FOREIGN_MS = 60_000;

/** Addresses without a trailing slash. The current address is used until it fails. Then the next address is used. */
export class Masters {
  readonly addresses: readonly string[];
  readonly affinity: StoreAffinity;
  readonly #avoidedUntilMs: number[];
  #turn = 0;

  constructor(
    addresses: string | readonly string[],
    affinity = new StoreAffinity(),
    private readonly nowMs: () => number = () => performance.now(),
  ) {
    this.addresses = (typeof addresses === "string" ? [addresses] : addresses).map(checked);
    if (this.addresses.length === 0) throw new TypeError("the address of a master is needed");
    this.affinity = affinity;
    this.#avoidedUntilMs = this.addresses.map(() => 0);
  }

  /** The address for the next call. */
  get current(): string {
    return this.addresses[this.#turn] ?? "";
  }

  /** The headers with which each call names its store. */
  storeHeaders(): Record<string, string> {
    return this.affinity.store === "" ? {} : { [STORE_HEADER]: this.affinity.store };
  }

  /**
   * Returns the answer if it can be trusted. After a 5xx, the next call goes to another master.
   *
   * @throws NoAnswerError for the answer of another store's master.
   */
  verified(address: string, answer: MasterAnswer): MasterAnswer {
    if (!this.affinity.admits(address, answer.store, answer.isOk, this.addresses)) {
      this.failed(address, AVOIDED_FOREIGN_MS);
      throw new NoAnswerError(`${address}: a master of another store`);
    }
    if (answer.status >= 500) this.failed(address, 0, true);
    return answer;
  }

  /**
   * Records that the master at an address gave no answer, or a 5xx (`hasAnswered`). If several callers report this at
   * once, the current address still changes only once.
   */
  failed(address: string, avoidedMs = 0, hasAnswered = false): void {
    if (this.current !== address) return;
    const nowMs = this.nowMs();
    if (avoidedMs > 0) this.#avoidedUntilMs[this.#turn] = nowMs + avoidedMs;
    const count = this.addresses.length;
    const untilMs = (turn: number): number => this.#avoidedUntilMs[turn] ?? 0;
    const others = Array.from({ length: count - 1 }, (_, step) => (this.#turn + step + 1) % count);
    let next = others.find((turn) => untilMs(turn) <= nowMs);
    if (next === undefined && !hasAnswered) {
      // The current address does not answer. Try the address that has been avoided longest: it may answer again.
      next = others.sort((one, other) => untilMs(one) - untilMs(other))[0];
    }
    this.#turn = next ?? this.#turn;
  }

  toString(): string {
    return this.addresses.join(", ");
  }
}

/**
 * Returns the pause before the next try, with full jitter: a random time up to a limit that doubles with each try.
 * `tries` counts from 1.
 */
export function backoffMs(tries: number, maxMs = 5000): number {
  return Math.random() * Math.min(maxMs, 100 * 2 ** Math.min(tries, 16));
}

/** Returns the pause until the next try: the time that the master asked for, plus a random part. */
export function pauseMs(tries: number, retryAfterS: number | undefined, maxMs = 5000): number {
  return (retryAfterS ?? 0) * 1000 + backoffMs(tries, maxMs);
}

function checked(address: string): string {
  const url = URL.canParse(address) ? new URL(address) : undefined;
  const isHttp = url !== undefined && ["http:", "https:"].includes(url.protocol);
  if (!isHttp || url.search !== "" || url.hash !== "" || url.username !== "") {
    throw new TypeError(`not the address of a master: ${JSON.stringify(address)} (like http://127.0.0.1:8080)`);
  }
  return address.replace(/\/+$/, "");
}
