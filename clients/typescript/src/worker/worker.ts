/** A worker: it registers with the masters, takes jobs, runs them, and reports how they ended. */

import { MasterClient } from "../masters/client.js";
import { Masters } from "../masters/masters.js";
import { inNamespace } from "../masters/namespaces.js";
import { environment } from "../pusher/environment.js";
import { Pusher, type PusherOptions } from "../pusher/pusher.js";
import type { AnyTask } from "../tasks/task.js";
import { AnsweredJobs } from "./answered-jobs.js";
import { openChallenge } from "./challenge-calls.js";
import { steadyMs } from "./clocks.js";
import { Endpoint } from "./endpoint.js";
import { answerTo } from "./fetch-handler.js";
import { Heartbeats } from "./heartbeats.js";
import { HttpServer } from "./http-server.js";
import { ClaimLog, LogSender } from "./log-sender.js";
import { Membership } from "./membership.js";
import { Observations } from "./observations.js";
import { Offers } from "./offers.js";
import { Puller } from "./puller.js";
import { Reporter } from "./reporter.js";
import { Runner } from "./runner.js";
import { Signals } from "./signals.js";
import { WorkerState, type Logger } from "./state.js";
import { WorkerCalls } from "./worker-calls.js";

/** How long jobs that were told to stop may take. */
const STOP_MS = 2_000;
/** How long the last reports may take. */
const REPORTS_MS = 30_000;
const LOOK_MS = 20;
const MAX_JOBS = 1_000;
const LOOPBACK = /^(localhost|127(\.\d+){3}|::1)$/;

/**
 * The settings of a worker.
 *
 * @example
 * ```ts
 * const worker = new Worker({ tasks: [resize], maxJobs: 20, labels: { zone: "a" } });
 * ```
 */
export interface WorkerOptions extends Pick<PusherOptions, "master" | "fetch"> {
  /** The tasks that it runs. */
  readonly tasks: readonly AnyTask[];
  /** Namespace, as for a pusher. Default: `JQMASTER_NAMESPACE`. */
  readonly namespace?: string;
  /** Bearer token with the scope `work`, and `push` for `ctx.enqueue`. Default: `JQMASTER_TOKEN`. */
  readonly token?: string;
  /** Maximum number of jobs at a time. Default 10. */
  readonly maxJobs?: number;
  /** Ask masters for jobs, because they cannot reach this worker. Default: they push. */
  readonly pull?: boolean;
  /**
   * The address at which masters reach this worker. It is needed if the worker's server is the application's
   * (`worker.fetch`), or listens on more than loopback.
   */
  readonly url?: string;
  /** Labels, which jobs can require. */
  readonly labels?: Readonly<Record<string, string>>;
  /** The name of this machine, for people. Default: the host name. */
  readonly nodeId?: string;
  /** The version of the application, for people. */
  readonly version?: string;
  /** Seconds for which jobs may go on when the worker ends. Default 25. */
  readonly grace?: number;
  /** End in good order on SIGTERM and SIGINT, then end the process. Default true. */
  readonly signals?: boolean;
  /** Where the worker says what happens to it. Default: standard error. */
  readonly logger?: Logger;
}

/**
 * Runs the jobs of tasks.
 *
 * @example
 * ```ts
 * const worker = new Worker({ tasks: [resize], maxJobs: 20 });
 * await worker.listen();
 * ```
 */
export class Worker {
  readonly #state: WorkerState;
  readonly #membership: Membership;
  readonly #reporter: Reporter;
  readonly #runner: Runner;
  readonly #endpoint: Endpoint;
  readonly #heartbeats: Heartbeats;
  readonly #logs: LogSender;
  readonly #puller: Puller | undefined;
  readonly #signals: Signals | undefined;
  readonly #graceMs: number;
  readonly #url: string | undefined;
  #server: HttpServer | undefined;
  #loops: Promise<unknown> | undefined;
  #stopped: Promise<void> | undefined;

  constructor(options: WorkerOptions) {
    const { url, token: known, namespace } = environment();
    const token = options.token ?? known;
    const { maxJobs = 10, grace = 25, logger = standardError, labels = {}, nodeId, version = "" } = options;
    if (!Number.isInteger(maxJobs) || maxJobs < 1 || maxJobs > MAX_JOBS) throw new RangeError(`maxJobs must be an integer from 1 to ${MAX_JOBS}`);
    const connection = {
      master: inNamespace(options.master ?? url, options.namespace ?? namespace),
      ...(token === undefined ? {} : { token }),
      ...(options.fetch === undefined ? {} : { fetch: options.fetch }),
    };
    const masters = new Masters(connection.master);
    const client = new MasterClient(masters, connection);
    const calls = new WorkerCalls(client);
    const state = (this.#state = new WorkerState(tasksByName(options.tasks), maxJobs, logger));
    this.#membership = new Membership(state, calls, { labels, nodeId, version });
    this.#reporter = new Reporter(state, calls, this.#membership);
    this.#logs = new LogSender(state, calls);
    const observations = new Observations(state, calls);
    this.#runner = new Runner(state, this.#reporter, {
      // The addresses name the namespace already.
      pusher: new Pusher({ ...connection, namespace: "default" }),
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
    if (options.pull !== true) this.#reporter.nextJobs = new AnsweredJobs(state, offers);
    this.#endpoint = new Endpoint(state, offers, this.#runner);
    this.#heartbeats = new Heartbeats(state, calls, this.#membership, this.#runner);
    this.#puller = options.pull === true ? new Puller(state, calls, this.#membership, offers) : undefined;
    this.#signals = options.signals === false ? undefined : new Signals(() => this.stop());
    this.#graceMs = grace * 1000;
    this.#url = options.url;
  }

  /** The ID under which the worker is registered. Undefined before that. */
  get id(): string | undefined {
    return this.#state.member?.id;
  }

  /**
   * Answers the calls of masters. Give it to a server that the application has, at the path of the option `url`, and
   * call `start` once the server listens.
   *
   * @example
   * ```ts
   * const worker = new Worker({ tasks: [resize], url: "https://app.example/jq" });
   * app.all("/jq/*", (context) => worker.fetch(context.req.raw)); // Hono
   * ```
   */
  readonly fetch = (request: Request): Promise<Response> => answerTo(this.#endpoint, request);

  /**
   * Opens a server of its own, registers, and returns once the worker takes jobs. A worker that pulls opens no server.
   *
   * @param address Default: any port of loopback. Other machines reach the worker at the option `url`.
   * @throws RefusedError for a registration that no repeat makes valid.
   *
   * @example
   * ```ts
   * await new Worker({ tasks: [resize], url: "http://10.0.0.7:9000" }).listen({ host: "0.0.0.0", port: 9000 });
   * ```
   */
  async listen({ host = "127.0.0.1", port = 0 }: { readonly host?: string; readonly port?: number } = {}): Promise<void> {
    if (this.#puller !== undefined) {
      await this.start();
      return;
    }
    if (this.#url === undefined && !LOOPBACK.test(host)) {
      throw new TypeError(`give the option url: masters cannot call a worker at ${host}`);
    }
    const server = new HttpServer(this.#endpoint);
    const listened = await server.listen(host, port);
    this.#server = server;
    await this.#start(this.#url ?? `http://${host.includes(":") ? `[${host}]` : host}:${listened}`);
  }

  /**
   * Registers, and returns once the worker takes jobs: one that pulls, or one whose server is the application's.
   *
   * @throws RefusedError for a registration that no repeat makes valid.
   *
   * @example
   * ```ts
   * await new Worker({ tasks: [resize], pull: true }).start();
   * ```
   */
  async start(): Promise<void> {
    if (this.#puller === undefined && this.#url === undefined) {
      throw new TypeError("a worker that is pushed to needs the option url, or listen(); one that pulls the option pull");
    }
    await this.#start(this.#puller === undefined ? (this.#url ?? null) : null);
  }

  /**
   * Ends in good order: the masters are told, no more jobs are taken, those that run may go on for `grace` seconds, and
   * the others are handed back. Returns when all is reported.
   *
   * @example
   * ```ts
   * await worker.stop();
   * ```
   */
  stop(): Promise<void> {
    return (this.#stopped ??= this.#stop());
  }

  async #start(url: string | null): Promise<void> {
    if (this.#loops !== undefined || this.#stopped !== undefined) throw new TypeError("a worker starts once");
    this.#membership.url = url?.replace(/\/+$/, "") ?? null;
    this.#endpoint.prefix = url === null ? "" : new URL(url).pathname.replace(/\/+$/, "");
    this.#signals?.listen();
    // Set before the first await, so that a second start is refused.
    this.#loops = Promise.resolve();
    try {
      await this.#membership.join();
    } catch (error) {
      this.#state.end();
      this.#signals?.forget();
      await this.#server?.close();
      throw error;
    }
    if (this.#state.isLeaving) return;
    this.#runner.start();
    this.#loops = Promise.all([this.#reporter.run(), this.#heartbeats.run(), this.#logs.run(), this.#puller?.run()]);
  }

  async #stop(): Promise<void> {
    const state = this.#state;
    state.isLeaving = true;
    await state.registering;
    if (state.member !== undefined) {
      const running = state.claims.running.length;
      state.logger.info(`ending: ${running === 0 ? "no job runs" : `${running} running jobs have ${this.#graceMs / 1000} s`}`);
      // Told at once, so that no heartbeat comes in between.
      const announced = this.#membership.announce();
      state.beat.ring();
      await Promise.all([announced, this.#puller?.withdraw()]);
      await this.#until(() => state.claims.running.length === 0, this.#graceMs);
      for (const claim of state.claims.running) this.#runner.stop(claim, "handed_back");
      await this.#until(() => state.claims.running.length === 0, STOP_MS);
      for (const { job } of state.claims.running) state.logger.warn(`job ${job.job_id} (${job.name}) ignores its signal, and is left`);
      // A job that never was named counts as one that never began.
      await this.#until(() => this.#reporter.isEmpty && state.claims.all.every(({ wasNamed }) => wasNamed), REPORTS_MS);
      await this.#membership.leave();
    }
    state.end();
    await this.#loops;
    this.#runner.end();
    await this.#server?.close();
    this.#signals?.forget();
  }

  async #until(isSo: () => boolean, forMs: number): Promise<void> {
    const endMs = steadyMs() + forMs;
    while (!isSo() && steadyMs() < endMs) await this.#state.news.wait(LOOK_MS);
  }
}

const standardError: Logger = {
  info: (text) => {
    console.error(text);
  },
  warn: (text) => {
    console.error(text);
  },
  error: (text) => {
    console.error(text);
  },
};

function tasksByName(tasks: readonly AnyTask[]): Map<string, AnyTask> {
  if (tasks.length === 0) throw new TypeError("a worker needs a task");
  const byName = new Map<string, AnyTask>();
  for (const task of tasks) {
    if (task.handler === undefined) throw new TypeError(`the task ${task.name} has no handler`);
    if (byName.has(task.name)) throw new TypeError(`two tasks are named ${task.name}`);
    byName.set(task.name, task);
  }
  return byName;
}
