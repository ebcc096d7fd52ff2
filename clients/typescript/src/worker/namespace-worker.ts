/** A worker in one namespace: its registration, claims, reports and heartbeats. */

import { MasterClient, type Fetch } from "../masters/client.js";
import { Masters } from "../masters/masters.js";
import { DEFAULT_NAMESPACE, namespaceOf } from "../masters/namespaces.js";
import { withBackend } from "../pusher/default.js";
import { Pusher } from "../pusher/pusher.js";
import type { AnyTask } from "../tasks/task.js";
import { AnsweredJobs } from "./answered-jobs.js";
import { openChallenge } from "./challenge-calls.js";
import { steadyMs } from "./clocks.js";
import { Endpoint } from "./endpoint.js";
import { Heartbeats } from "./heartbeats.js";
import { ClaimLog, LogSender } from "./log-sender.js";
import { Membership, type Identity } from "./membership.js";
import { Observations } from "./observations.js";
import { Offers } from "./offers.js";
import { Puller } from "./puller.js";
import { Reporter } from "./reporter.js";
import { Runner } from "./runner.js";
import type { SlotShare } from "./shared-slots.js";
import { WorkerState, type Logger } from "./state.js";
import { WorkerCalls } from "./worker-calls.js";

/** How long jobs may take to stop. */
const STOP_MS = 2_000;
/** How long the last reports may take. */
const REPORTS_MS = 30_000;
const LOOK_MS = 20;
/** The pause after a refusal that only an operator can resolve, if the worker has several namespaces. */
const REFUSED_MS = 10_000;

/** The masters of a namespace, and the settings for calls to them. */
export interface Connection {
  readonly master: readonly string[];
  readonly token?: string;
  readonly fetch?: Fetch;
}

/** The settings of a worker that all its namespaces share. */
export interface CommonSettings {
  readonly tasks: ReadonlyMap<string, AnyTask>;
  readonly maxJobs: number;
  readonly pull: boolean;
  readonly identity: Identity;
  readonly logger: Logger;
}

/** A worker in one namespace. */
export class NamespaceWorker {
  readonly namespace: string;
  readonly endpoint: Endpoint;
  readonly #state: WorkerState;
  readonly #membership: Membership;
  readonly #reporter: Reporter;
  readonly #runner: Runner;
  readonly #heartbeats: Heartbeats;
  readonly #logs: LogSender;
  readonly #puller: Puller | undefined;
  #loops: Promise<unknown> | undefined;

  /** @param share The slots of this namespace, if the worker works in several. */
  constructor(connection: Connection, { tasks, maxJobs, pull, identity, logger }: CommonSettings, share?: SlotShare) {
    const masters = new Masters(connection.master);
    this.namespace = namespaceOf(masters.current) ?? DEFAULT_NAMESPACE;
    const calls = new WorkerCalls(new MasterClient(masters, connection));
    const state = (this.#state = new WorkerState(tasks, maxJobs, share === undefined ? logger : named(logger, this.namespace), share));
    this.#membership = new Membership(state, calls, identity);
    this.#reporter = new Reporter(state, calls, this.#membership);
    this.#logs = new LogSender(state, calls);
    const observations = new Observations(state, calls);
    // The addresses already name the namespace.
    const pusher = new Pusher({ ...connection, namespace: DEFAULT_NAMESPACE });
    this.#runner = new Runner(state, this.#reporter, {
      namespace: this.namespace,
      pusher,
      // If there are several namespaces, tasks that a handler enqueues go to the namespace of its job.
      within: (call) => (share === undefined ? call() : withBackend(pusher, call)),
      logOf: (claim) => new ClaimLog(this.#logs, claim.ref),
      openChallenge: (claim, asked) => openChallenge(state, calls, claim, asked),
      observe: (constraint, room) => {
        observations.observe(constraint, room);
      },
      hurry: () => {
        state.beat.ring();
      },
    });
    const offers = new Offers(state, this.#runner);
    if (!pull) this.#reporter.nextJobs = new AnsweredJobs(state, offers);
    this.endpoint = new Endpoint(state, offers, this.#runner);
    this.#heartbeats = new Heartbeats(state, calls, this.#membership, this.#runner);
    this.#puller = pull ? new Puller(state, calls, this.#membership, offers) : undefined;
  }

  get id(): string | undefined {
    return this.#state.member?.id;
  }

  /** Sets the address at which masters reach the worker; null: the worker pulls. */
  servedAt(url: string | null): void {
    this.#membership.url = url;
    this.endpoint.prefix = url === null ? "" : new URL(url).pathname.replace(/\/+$/, "");
  }

  /**
   * Registers, and starts to take jobs.
   *
   * @throws RefusedError if repeating the registration does not help.
   */
  async begin(): Promise<void> {
    await this.#membership.join();
    if (this.#state.isLeaving) return;
    this.#runner.start();
    this.#loops = Promise.all([this.#reporter.run(), this.#heartbeats.run(), this.#logs.run(), this.#puller?.run()]);
  }

  /** Starts after a refusal, once an operator has resolved its cause. */
  async beginLater(refusal: unknown): Promise<void> {
    const state = this.#state;
    let error = refusal;
    while (true) {
      state.logger.error(`not registered, and trying again: ${error instanceof Error ? error.message : String(error)}`);
      await state.pause(REFUSED_MS);
      if (state.isLeaving) return;
      try {
        await this.begin();
        return;
      } catch (again) {
        error = again;
      }
    }
  }

  /** Ends before the worker has started. */
  abandon(): void {
    this.#state.isLeaving = true;
    this.#state.end();
  }

  /** Ends in good order, as `Worker.stop` describes. Returns when everything is reported. */
  async stop(graceMs: number): Promise<void> {
    const state = this.#state;
    state.isLeaving = true;
    await state.registering;
    if (state.member !== undefined) {
      const running = state.claims.running.length;
      state.logger.info(`ending: ${running === 0 ? "no job runs" : `${running} running jobs have ${graceMs / 1000} s`}`);
      // Announce this at once, so that no heartbeat is sent before.
      const announced = this.#membership.announce();
      state.beat.ring();
      await Promise.all([announced, this.#puller?.withdraw()]);
      await this.#until(() => state.claims.running.length === 0, graceMs);
      for (const claim of state.claims.running) this.#runner.stop(claim, "handed_back");
      await this.#until(() => state.claims.running.length === 0, STOP_MS);
      for (const { job } of state.claims.running) state.logger.warn(`job ${job.job_id} (${job.name}) ignores its signal, and keeps running`);
      // A job that heartbeats never named counts as a job that never began.
      await this.#until(() => this.#reporter.isEmpty && state.claims.all.every(({ wasNamed }) => wasNamed), REPORTS_MS);
      await this.#membership.leave();
    }
    state.end();
    await this.#loops;
    this.#runner.end();
  }

  async #until(isSo: () => boolean, forMs: number): Promise<void> {
    const endMs = steadyMs() + forMs;
    while (!isSo() && steadyMs() < endMs) await this.#state.news.wait(LOOK_MS);
  }
}

/** Returns a logger that begins its texts with the namespace. */
function named(logger: Logger, namespace: string): Logger {
  return {
    info: (text) => {
      logger.info(`${namespace}: ${text}`);
    },
    warn: (text) => {
      logger.warn(`${namespace}: ${text}`);
    },
    error: (text) => {
      logger.error(`${namespace}: ${text}`);
    },
  };
}
