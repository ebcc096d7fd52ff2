/** Polls masters for jobs, for a worker that the masters cannot reach. */

import { randomUUID } from "node:crypto";
import { pauseMs } from "../masters/masters.js";
import { decode, encode } from "../wire/msgpack.js";
import type { ClaimRequest } from "../wire/protocol.js";
import { fieldsOf } from "../wire/raw.js";
import type { Offers } from "./offers.js";
import type { Membership } from "./membership.js";
import type { WorkerState } from "./state.js";
import type { WorkerCalls } from "./worker-calls.js";

const WAIT_S = 20;
/** How much longer than the requested wait an answer may take. */
const SLACK_MS = 5_000;
const FULL_MS = 100;
const WATCH_MS = 50;
const WITHDRAW_TIMEOUT_MS = 3_000;
const REFUSED_S = 0.1;
/**
 * How long the share of a namespace is reserved while it asks a master for jobs. A master that has jobs answers at
 * once.
 */
const ASKED_MS = 100;

interface Poll {
  readonly id: string;
  readonly abort: AbortController;
}

/** Polls masters for jobs, with one call at a time. */
export class Puller {
  #hanging: Poll | undefined;
  /**
   * Whether this namespace may have jobs that need its share of the slots: it could not poll, or its last poll returned
   * jobs.
   */
  #mayHaveJobs = false;
  #refused: NonNullable<ClaimRequest["refused"]> = [];

  constructor(
    private readonly state: WorkerState,
    private readonly calls: WorkerCalls,
    private readonly membership: Membership,
    private readonly offers: Offers,
  ) {}

  /** Polls until the worker ends. */
  async run(): Promise<void> {
    const { state } = this;
    const watch = setInterval(() => {
      if (state.isDraining) void this.withdraw();
    }, WATCH_MS);
    let [pollId, tries] = [randomUUID() as string, 0];
    while (!state.isOver) {
      await state.registering;
      const { room } = state;
      this.#keepShare(room);
      if (room === 0) {
        await this.#giveBack();
        await state.news.wait(FULL_MS);
        continue;
      }
      const next = await this.#ask(pollId);
      if (next === "again") {
        tries += 1;
      } else if (typeof next === "number") {
        await state.pause(next + pauseMs(++tries, undefined));
      } else {
        [pollId, tries] = [randomUUID(), 0];
        // Pause, because the master may return the same jobs at once.
        if (this.#refused.length > 0) await state.pause(pauseMs(2, REFUSED_S));
      }
    }
    clearInterval(watch);
  }

  /**
   * Reserves free slots for this namespace until it is known to have no jobs. It needs a slot to poll, and a master
   * needs a moment to answer. While the call waits for jobs, the slots may be lent.
   */
  #keepShare(room: number): void {
    const { share, isDraining } = this.state;
    if (room === 0) this.#mayHaveJobs = true;
    if (isDraining || !this.#mayHaveJobs) share?.want(0);
    else share?.want(share.guaranteed, room === 0 ? undefined : ASKED_MS);
  }

  /** Withdraws the waiting call. Jobs that masters assigned to it and that have not begun are handed back. */
  async withdraw(): Promise<void> {
    const poll = this.#hanging;
    if (poll === undefined || poll.abort.signal.aborted) return;
    poll.abort.abort();
    const body = encode({ max: 1, poll_id: poll.id, withdraw: true } satisfies ClaimRequest);
    await this.calls.call("POST", `/api/workers/${this.state.registered.id}/claim`, { body, timeoutMs: WITHDRAW_TIMEOUT_MS });
  }

  /** Hands back the refused jobs while the worker does not poll for jobs. */
  async #giveBack(): Promise<void> {
    const refused = this.#refused;
    if (refused.length === 0) return;
    this.#refused = [];
    const body = encode({ max: 1, wait: 0, poll_id: randomUUID(), refused, withdraw: true } satisfies ClaimRequest);
    await this.calls.call("POST", `/api/workers/${this.state.registered.id}/claim`, { body, timeoutMs: WITHDRAW_TIMEOUT_MS });
  }

  /**
   * Makes one call. Returns "new" if it was answered, "again" to repeat it at once, or the milliseconds to wait before
   * the repeat.
   */
  async #ask(pollId: string): Promise<"new" | "again" | number> {
    const { state } = this;
    const { id } = state.registered;
    const poll: Poll = { id: pollId, abort: new AbortController() };
    this.#hanging = poll;
    const request: ClaimRequest = { max: state.room, wait: WAIT_S, poll_id: pollId, refused: this.#refused };
    const answer = await this.calls.call("POST", `/api/workers/${id}/claim`, {
      body: encode(request),
      timeoutMs: WAIT_S * 1000 + SLACK_MS,
      signal: poll.abort.signal,
      isRaw: true,
    });
    this.#hanging = undefined;
    // Ignore the answer to a call that was withdrawn.
    if (poll.abort.signal.aborted) return "new";
    if (answer.status === 200) {
      this.#take(answer.bytes);
      return "new";
    }
    if (answer.status === 404 && answer.code === "unknown_worker") {
      await this.membership.rejoin(id);
      return "again";
    }
    if (answer.code === "poll_replaced") return "new";
    if (answer.code === "worker_detached") state.beat.ring();
    return (answer.retryAfterS ?? 0) * 1000;
  }

  #take(bytes: Uint8Array): void {
    // Each job is decoded by itself, as in a push.
    const fields = fieldsOf(bytes);
    const value = (name: string) => {
      const encoded = fields?.get(name);
      return encoded === undefined ? undefined : decode(encoded);
    };
    const judged = this.offers.judge(value("epoch"), fields?.get("jobs"));
    // A duplicate waits until its lease ends.
    this.#mayHaveJobs = judged !== undefined && judged.accepted.length + judged.rejected.length > 0;
    const refused = (judged?.rejected ?? []).filter(({ reason }) => reason !== "duplicate");
    this.#refused = refused.map(({ job: { job_id, token } }) => ({ job_id, token }));
    if (value("drain") === true) this.state.drainOrdered = true;
  }
}
