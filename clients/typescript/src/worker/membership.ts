/** The registration of a worker: it registers, registers again after a loss of contact, and unregisters. */

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
  /** The address at which masters reach the worker; null: the worker pulls. */
  url: string | null = null;

  constructor(
    private readonly state: WorkerState,
    private readonly calls: WorkerCalls,
    private readonly identity: Identity,
  ) {}

  /**
   * Registers for the first time.
   *
   * @throws RefusedError if repeating the registration does not help.
   */
  async join(): Promise<void> {
    await this.#under(this.#register());
  }

  /**
   * Registers again after masters forgot this worker. Its running jobs then no longer belong to it. Only one call runs
   * at a time, and results wait meanwhile.
   */
  async rejoin(oldId: string): Promise<void> {
    if (this.state.member?.id !== oldId) return;
    await (this.state.registering ?? this.#under(this.#again()));
  }

  /** Announces that the process is ending: masters then send no more jobs, and count no loss at the end of a lease. */
  async announce(): Promise<void> {
    await this.#tell("POST", "/leaving");
  }

  async leave(): Promise<void> {
    await this.#tell("DELETE", "");
  }

  async #under(registration: Promise<void>): Promise<void> {
    // Other parts of the worker wait for this promise, but only the caller handles its failure.
    this.state.registering = registration.catch(() => undefined).finally(() => {
      this.state.registering = undefined;
    });
    await registration;
  }

  async #again(): Promise<void> {
    const { state } = this;
    state.logger.warn("no longer registered: running jobs are stopped");
    for (const claim of state.claims.all) claim.stop("lost");
    // Wait: a registration at the same address may release the jobs of the former registration at once.
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
      // If the worker was registered before, the cause of the refusal may disappear again.
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
      // Older masters do not know `leaving`. A master that does not know the worker has nothing to do.
      if (answer.status !== 0 && answer.status < 500) return;
      if (tries < LEAVE_TRIES) await sleep(pauseMs(tries, undefined, 500));
    }
  }
}

function isFinal(answer: Answer): boolean {
  return !isTransient(answer) && !["address_unverified", "address_unresolved"].includes(answer.code);
}
