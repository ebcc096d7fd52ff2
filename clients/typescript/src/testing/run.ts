/** Jobs of a test, and their outcomes. */

import type { ReadyJob } from "../pusher/backend.js";
import type { Job } from "../tasks/job.js";
import type { Task } from "../tasks/task.js";
import { decode, encode } from "../wire/msgpack.js";
import type { JobState, LogLevel, ProgressRequest } from "../wire/protocol.js";
import { Callback, type ObservedRoom } from "../worker/context.js";
import type { Outcome } from "../worker/outcomes.js";

const OVER: ReadonlySet<JobState> = new Set<JobState>(["succeeded", "discarded", "failed", "canceled", "skipped"]);

/**
 * A job of a test, and its outcome.
 *
 * @example
 * ```ts
 * const [run] = await drain(jobs);
 * assert.equal(run?.state, "succeeded");
 * assert.deepEqual(run?.result, { width: 320 });
 * ```
 */
export class Run {
  readonly id: string;
  readonly name: string;
  /** The namespace that `with` named for the job. */
  readonly namespace: string | undefined;
  /** The argument as a worker gets it. */
  readonly args: unknown;
  /** The job in wire form. */
  readonly request: ReadyJob;
  state: JobState;
  /** Number of starts. */
  attempt = 0;
  /** Number of failed attempts that used a retry. */
  failures = 0;
  /** When the job ran last or will run next, in seconds of the virtual clock. */
  at: number;
  /** The value that the handler returned. */
  result: unknown = undefined;
  /** The error that the handler threw last. */
  error: unknown = undefined;
  /** The report of the last attempt. */
  outcome: Outcome | undefined;
  progress: ProgressRequest | undefined;
  /** The lines of the job's log. */
  readonly log: { readonly level: LogLevel; readonly text: string }[] = [];
  /** The challenges that the job opened. */
  readonly challenges: { readonly requestId: string; readonly callbackUrl: string }[] = [];
  /** The units that the last attempt reported with `ctx.used`. */
  used: Readonly<Record<string, number>> = {};
  /** The limits of other services that the last attempt reported with `ctx.observed`, in order. */
  observed: ({ readonly constraint: string } & ObservedRoom)[] = [];
  /** @internal */
  savedCheckpoint: Uint8Array | undefined;
  /** @internal */
  callbacks: Callback[] = [];
  /** @internal */
  readonly expiresAt: number;

  /** @internal */
  constructor(
    readonly job: Job,
    nowS: number,
    wallMs: number,
  ) {
    const { request } = job;
    this.id = request.id;
    this.name = request.name;
    this.namespace = job.task?.namespace;
    this.request = request;
    this.args = decode(encode(request.argument ?? null));
    const atS = typeof request.run_at === "string" ? nowS + (Date.parse(request.run_at) - wallMs) / 1000 : nowS + (request.delay ?? 0);
    this.at = Math.max(nowS, atS);
    const expiresMs = typeof request.expires_at === "string" ? Date.parse(request.expires_at) : Infinity;
    this.expiresAt = Math.min(nowS + (request.expires_s ?? Infinity), nowS + (expiresMs - wallMs) / 1000);
    this.state = request.after ? "awaiting_jobs" : this.at > nowS ? "scheduled" : "ready";
  }

  get isOver(): boolean {
    return OVER.has(this.state);
  }

  /**
   * Answers the challenge of the job, in place of the other system. `drain` then continues the job.
   *
   * @example
   * ```ts
   * run.callback({ tracking: "T-7" });
   * await drain(jobs);
   * ```
   */
  callback(value: unknown, contentType = "application/json"): void {
    if (this.state !== "awaiting_callback") throw new TypeError(`job ${this.name} is ${this.state}: it awaits no callback`);
    const text = contentType === "application/json" ? JSON.stringify(value) : String(value);
    this.callbacks = [new Callback(contentType, new TextEncoder().encode(text), new Date())];
    this.state = "ready";
  }
}

/**
 * The jobs that a test has enqueued, in order.
 *
 * @example
 * ```ts
 * const jobs = await recording(() => signUp("ada"));
 * assert.deepEqual(jobs.only(sendMail).args, { to: "ada" });
 * ```
 */
export interface Recorded extends ReadonlyArray<Run> {
  /** Returns the jobs of a task. */
  of<Args, Result>(task: Task<Args, Result>): readonly (Run & { readonly args: Args })[];
  /** Returns the only job of a task. Throws RangeError if there are none or several. */
  only<Args, Result>(task: Task<Args, Result>): Run & { readonly args: Args };
}

/** The list of jobs that the test kit keeps. */
export class RecordedRuns extends Array<Run> implements Recorded {
  // `map` and `filter` return a plain array.
  static override get [Symbol.species](): ArrayConstructor {
    return Array;
  }

  of<Args, Result>(task: Task<Args, Result>): readonly (Run & { readonly args: Args })[] {
    return this.filter((run): run is Run & { readonly args: Args } => run.name === task.name);
  }

  only<Args, Result>(task: Task<Args, Result>): Run & { readonly args: Args } {
    const [run, ...others] = this.of(task);
    if (run === undefined || others.length > 0) throw new RangeError(`${run === undefined ? 0 : others.length + 1} jobs of ${task.name}`);
    return run;
  }
}
