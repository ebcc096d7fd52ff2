/** Calls to masters. */

import { CONTENT_TYPE } from "../wire/msgpack.js";
import { MasterAnswer, NoAnswerError } from "./answer.js";
import type { Masters } from "./masters.js";

/**
 * The function that makes HTTP calls: the global `fetch`, or another function, for example with a proxy or a client
 * certificate.
 */
export type Fetch = (url: string, init: RequestInit) => Promise<Response>;

/** Options of a call. */
export interface CallOptions {
  /** The body, as MessagePack. */
  readonly body?: Uint8Array<ArrayBuffer> | undefined;
  readonly timeoutMs?: number | undefined;
  /** Leave the body of a success as bytes. */
  readonly isRaw?: boolean;
  /** Further header fields. */
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal | undefined;
}

/** The settings of a client. */
export interface MasterClientOptions {
  readonly token?: string | undefined;
  readonly timeoutMs?: number;
  readonly durability?: string | undefined;
  readonly fetch?: Fetch | undefined;
}

/** Makes each call once. The caller repeats it if needed. */
export class MasterClient {
  readonly #headers: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  readonly #fetch: Fetch;

  constructor(
    readonly masters: Masters,
    { token, timeoutMs = 10_000, durability, fetch = globalThis.fetch }: MasterClientOptions,
  ) {
    this.timeoutMs = timeoutMs;
    this.#fetch = fetch;
    this.#headers = {
      "Content-Type": CONTENT_TYPE,
      Accept: CONTENT_TYPE,
      ...(token === undefined ? {} : { Authorization: `Bearer ${token}` }),
      ...(durability === undefined ? {} : { "JQ-Durability": durability }),
    };
  }

  /**
   * Calls the current master once.
   *
   * @throws NoAnswerError. The next call then goes to another master, as after a 5xx.
   */
  async call(method: string, path: string, { body, timeoutMs = this.timeoutMs, isRaw = false, headers = {}, signal }: CallOptions = {}): Promise<MasterAnswer> {
    const address = this.masters.current;
    const timeout = AbortSignal.timeout(timeoutMs);
    let answer: MasterAnswer;
    try {
      const response = await this.#fetch(address + path, {
        method,
        headers: { ...this.#headers, ...this.masters.storeHeaders(), ...headers },
        redirect: "manual",
        signal: signal === undefined ? timeout : AbortSignal.any([signal, timeout]),
        ...(body === undefined ? {} : { body }),
      });
      answer = await MasterAnswer.read(response, isRaw);
    } catch (error) {
      // A call that the caller aborted says nothing about the master.
      if (signal?.aborted !== true) this.masters.failed(address);
      throw new NoAnswerError(`${address}: ${reasonOf(error)}`, { cause: error });
    }
    return this.masters.verified(address, answer);
  }
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  // fetch only says "fetch failed". The reason is in its cause.
  const { cause } = error;
  if (cause instanceof AggregateError && cause.errors[0] instanceof Error) return cause.errors[0].message;
  return cause instanceof Error && cause.message !== "" ? cause.message : error.message;
}
