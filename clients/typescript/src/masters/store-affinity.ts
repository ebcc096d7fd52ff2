/** The store that this program belongs to, so that a master of another store is not taken for one of its own. */

/** The header that names the store. */
export const STORE_HEADER = "JQ-Store";
/** By default a lease: a store that was begun anew is believed once nobody has answered for the former one so long. */
const PATIENCE_MS = 15_000;

/** The store of the first master that granted a call, shared by all clients of a worker. */
export class StoreAffinity {
  /** Empty until a master has granted a call. */
  store = "";
  patienceMs = PATIENCE_MS;
  /** By address: the foreign store that it answered for. */
  readonly #foreign = new Map<string, string>();
  #foreignSinceMs = 0;

  constructor(private readonly nowMs: () => number = () => performance.now()) {}

  /** Returns whether an answer from `address`, whose master named `store`, may be believed. */
  admits(address: string, store: string, isOk: boolean, addresses: readonly string[]): boolean {
    // Masters older than the header name none.
    if (store === "") return true;
    if (this.store === "" && isOk) this.store = store;
    if (this.store === "" || store === this.store) {
      this.#foreign.clear();
      return true;
    }
    if (this.#foreign.size === 0) this.#foreignSinceMs = this.nowMs();
    this.#foreign.set(address, store);
    const isEverywhere = addresses.every((one) => this.#foreign.get(one) === store);
    if (isEverywhere && this.nowMs() - this.#foreignSinceMs >= this.patienceMs) {
      this.store = store;
      this.#foreign.clear();
    }
    // The call named the former store, so even a master of the new one has refused it.
    return false;
  }
}
