/** Sends observations of other services' limits to the masters. */

import { encode } from "../wire/msgpack.js";
import type { ObservedRoom } from "./context.js";
import type { WorkerState } from "./state.js";
import { isTransient, type WorkerCalls } from "./worker-calls.js";

const PATIENCE_MS = 10_000;
const PAUSE_MS = 200;

interface Waiting {
  readonly constraint: string;
  readonly room: ObservedRoom;
  readonly atMs: number;
  /** A time that the store's clock had certainly reached at the observation. */
  readonly asOfMs: number;
}

/** Sends observations, one call at a time. If several observations of a gate wait, it sends the last one. */
export class Observations {
  readonly #waiting = new Map<string, Waiting>();
  #isSending = false;

  constructor(
    private readonly state: WorkerState,
    private readonly calls: WorkerCalls,
  ) {}

  observe(constraint: string, room: ObservedRoom): void {
    const key = Buffer.from(encode([constraint, room.value ?? null])).toString("hex");
    this.#waiting.set(key, { constraint, room, atMs: performance.now(), asOfMs: this.state.store.earliestMs() });
    if (!this.#isSending) void this.#sendAll();
  }

  async #sendAll(): Promise<void> {
    this.#isSending = true;
    for (let next = this.#next(); next !== undefined; next = this.#next()) await this.#send(next);
    this.#isSending = false;
  }

  #next(): Waiting | undefined {
    const [first] = this.#waiting;
    if (first !== undefined) this.#waiting.delete(first[0]);
    return first?.[1];
  }

  async #send({ constraint, room, atMs, asOfMs }: Waiting): Promise<void> {
    while (performance.now() - atMs < PATIENCE_MS && !this.state.isOver) {
      await this.state.registering;
      const body = encode({
        constraint,
        ...("value" in room ? { value: room.value } : {}),
        remaining: room.remaining,
        resets_s: room.resetsS,
        as_of_ms: asOfMs,
      });
      const answer = await this.calls.call("POST", `/api/workers/${this.state.registered.id}/observations`, { body });
      if (answer.status >= 200 && answer.status < 300) return;
      if (!isTransient(answer) && answer.code !== "unknown_worker") {
        this.state.logger.warn(`the observed limit of ${constraint} is not applied: ${answer.detail}`);
        return;
      }
      await this.state.pause(PAUSE_MS);
    }
  }
}
