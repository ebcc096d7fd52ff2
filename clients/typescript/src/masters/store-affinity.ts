/** Remembers the store that this program belongs to, so that it does not trust a master of another store. */

/** The header that names the store. */
export const STORE_HEADER = "JQ-Store";
/** A new store is trusted once no master of the former store has answered for this long. The default is a lease. */
const PATIENCE_MS = 15_000;

/** The store of the first master that granted a call, shared by all clients of a worker. */
export class StoreAffinity {
  /** Empty until a master has granted a call. */
  store = "";
  patienceMs = PATIENCE_MS;
  /** By address, the other store that the master there named. */
  readonly #foreign = new Map<string, string>();
  #foreignSinceMs = 0;

  constructor(private readonly nowMs: () => number = () => performance.now()) {}

  /** Returns whether an answer from `address` can be trusted. The master there named `store`. */
  admits(address: string, store: string, isOk: boolean, addresses: readonly string[]): boolean {
    // Older masters do not name their store.
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
