/** The other system: a shop that is sometimes full, sometimes fails, and calls back later. It keeps a book. */

import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

/** The body that the shop posts to the callback URL. */
export type Answer = { readonly receipt: string } | { readonly error: string };

/** The address of the shop. */
export interface ShopClient {
  readonly url: string;
}

/** A line of the book: the work that was really done, with one key. */
export interface Entry {
  readonly order: number;
  readonly key: string;
  readonly answer: Answer;
  calls: number;
}

/** One order in this many can never be carried out. */
export const IMPOSSIBLE_EACH = 7;
const WORK_MS = 30;
const MAX_AT_A_TIME = 5;

/** A shop. */
export class Shop {
  readonly book = new Map<string, Entry>();
  #atWork = 0;
  #calls = 0;
  readonly #server = createServer((request, response) => {
    void this.#serve(request, response);
  });

  /** Starts the shop, and returns its address. */
  async open(): Promise<string> {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  close(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (request.url === "/room") {
      response.writeHead(this.#atWork < MAX_AT_A_TIME ? 204 : 503).end();
      return;
    }
    const { order, callbackUrl } = JSON.parse(await textOf(request)) as { order: number; callbackUrl: string };
    // Every fourth call fails, alternately with a fault of the shop and with a conflict. Every ninth call gets no
    // answer.
    this.#calls += 1;
    if (this.#calls % 9 === 0) {
      request.destroy();
      return;
    }
    if (this.#calls % 4 === 0) {
      const error = this.#calls % 8 === 0 ? "RESOURCE_CONFLICT" : "TEMPORARY_UNAVAILABLE";
      response.writeHead(503, { "Content-Type": "application/json" }).end(JSON.stringify({ error }));
      return;
    }
    const key = request.headers["idempotency-key"] as string;
    const answer: Answer = order % IMPOSSIBLE_EACH === 0 ? { error: "NO_SUCH_ARTICLE" } : { receipt: `receipt-${order}` };
    const entry = this.book.get(key) ?? { order, key, answer, calls: 0 };
    entry.calls += 1;
    this.book.set(key, entry);
    response.writeHead(202).end();
    await this.#work(entry, callbackUrl);
  }

  /** Does the work, and ends with the callback. The callback may come twice. */
  async #work(entry: Entry, callbackUrl: string): Promise<void> {
    this.#atWork += 1;
    await sleep(WORK_MS);
    this.#atWork -= 1;
    for (let times = 0; times < (entry.order % 3 === 0 ? 2 : 1); times++) {
      await fetch(callbackUrl, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(entry.answer) });
    }
  }
}

async function textOf(request: IncomingMessage): Promise<string> {
  let text = "";
  for await (const piece of request) text += String(piece);
  return text;
}
