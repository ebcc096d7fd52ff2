/** The registration of a worker: it joins, joins again after a cut, and leaves. */

import { hostname } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { pauseMs } from "../masters/masters.js";
import { RefusedError } from "../errors/calls.js";
import { encode } from "../wire/msgpack.js";
import type { RegisterAnswer, RegisterRequest } from "../wire/protocol.js";
import type { Instant } from "./clocks.js";
import type { WorkerState } from "./state.js";
import { isTransient, type Answer, type WorkerCalls } from "./worker-calls.js";

const REGISTER_TIMEOUT_MS = 10_000;
const LEAVE_TIMEOUT_MS = 3_000;
const LEAVE_TRIES = 3;
const LOOK_MS = 20;

/** The identity of the worker, for people. */
export interface Identity {
  readonly labels: Readonly<Record<string, string>>;
  readonly nodeId: string | undefined;
  readonly version: string;
}

/** The registration of a worker. */
export class Membership {
  /** The address at which masters reach the worker; null: it pulls. */
  url: string | null = null;

  constructor(
    private readonly state: WorkerState,
    private readonly calls: WorkerCalls,
    private readonly identity: Identity,
  ) {}

  /**
   * Registers for the first time.
   *
   * @throws RefusedError for a registration that no repeat makes valid.
   */
  async join(): Promise<void> {
    await this.#under(this.#register());
  }

  /** After a cut, nothing that runs here is this worker's any more. One at a time; results wait meanwhile. */
  async rejoin(oldId: string): Promise<void> {
    if (this.state.member?.id !== oldId) return;
    await (this.state.registering ?? this.#under(this.#again()));
  }

  /** Tells that the end is near: no more jobs come, and the end of a lease counts as no loss. */
  async announce(): Promise<void> {
    await this.#tell("POST", "/leaving");
  }

  async leave(): Promise<void> {
    await this.#tell("DELETE", "");
  }

  async #under(registration: Promise<void>): Promise<void> {
    // The parts of the worker wait for it, and its failure is the caller's alone.
    this.state.registering = registration.catch(() => undefined).finally(() => {
      this.state.registering = undefined;
    });
    await registration;
  }

  async #again(): Promise<void> {
    const { state } = this;
    state.logger.warn("no longer registered: running jobs are stopped");
    for (const claim of state.claims.all) claim.stop("lost");
    // Not earlier: a registration at the same address may free the jobs of the former one at once.
    while (state.claims.running.some((claim) => state.clock.nowMs() < claim.leaseEndMs)) await sleep(LOOK_MS);
    await this.#register();
  }

  async #register(): Promise<void> {
    const { state } = this;
    const request: Omit<RegisterRequest, "secret"> = {
      url: this.url,
      names: [...state.tasks.keys()],
      max_jobs: state.maxJobs,
      node_id: this.identity.nodeId ?? hostname(),
      pid: process.pid,
      labels: { ...this.identity.labels },
      version: this.identity.version,
    };
    for (let tries = 1; !state.isLeaving; tries++) {
      const sent = state.clock.instant();
      const body = encode({ ...request, secret: state.newSecret() });
      const answer = await this.calls.call("POST", "/api/workers", { body, timeoutMs: REGISTER_TIMEOUT_MS });
      if (answer.status === 201) {
        this.#joined(answer.body as unknown as RegisterAnswer, sent);
        return;
      }
      // Once it was registered, the refusal may end as it began.
      if (state.member === undefined && isFinal(answer)) throw new RefusedError(answer.status, answer.body);
      state.logger.warn(`not registered: ${answer.detail}`);
      await state.pause(pauseMs(tries, answer.retryAfterS));
    }
  }

  #joined(answer: RegisterAnswer, sent: Instant): void {
    const { state } = this;
    state.store.learn(answer.store_time_ms, sent, 0);
    state.noteEpoch(answer.epoch);
    state.member = { id: answer.worker_id, leaseMs: answer.lease_s * 1000, intervalMs: answer.heartbeat_interval_s * 1000 };
    this.calls.patienceMs = state.member.leaseMs;
    state.drainOrdered = false;
    state.logger.info(`registered as worker ${state.member.id}${this.url === null ? ", which pulls" : ` at ${this.url}`}`);
  }

  async #tell(method: "POST" | "DELETE", path: string): Promise<void> {
    const { member } = this.state;
    for (let tries = 1; member !== undefined && tries <= LEAVE_TRIES; tries++) {
      const answer = await this.calls.call(method, `/api/workers/${member.id}${path}`, { timeoutMs: LEAVE_TIMEOUT_MS });
      // Masters of older releases know no `leaving`, and one that does not know the worker has nothing to do.
      if (answer.status !== 0 && answer.status < 500) return;
      if (tries < LEAVE_TRIES) await sleep(pauseMs(tries, undefined, 500));
    }
  }
}

function isFinal(answer: Answer): boolean {
  return !isTransient(answer) && !["address_unverified", "address_unresolved"].includes(answer.code);
}
