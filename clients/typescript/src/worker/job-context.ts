/** The implementation of `Context` for a run. */

import { check } from "../checks/options.js";
import { Pusher } from "../pusher/pusher.js";
import type { JobOptions } from "../pusher/options.js";
import type { JobHandle } from "../tasks/handle.js";
import type { TaskLike } from "../tasks/job.js";
import { decode, encode } from "../wire/msgpack.js";
import type { Dispatch, JobInput, LogLevel, OutsideCallback } from "../wire/protocol.js";
import type { Claim } from "./claims.js";
import type { LatestClock } from "./clocks.js";
import { CHALLENGE, Callback, type Challenge, type ChallengeOptions, type Context, type JobLog, type ObservedRoom } from "./context.js";
import type { ClaimLog } from "./log-sender.js";
import { checkedRoom, checkedUnits } from "./units.js";

const MAX_CHECKPOINT_BYTES = 16 * 1024;

/** The services that a worker offers to its handlers. */
export interface Services {
  /** The namespace of the jobs. */
  readonly namespace: string;
  readonly pusher: Pick<Pusher, "enqueue">;
  /** Calls a handler in the namespace of the job. */
  within<Value>(call: () => Value): Value;
  logOf(claim: Claim): ClaimLog;
  openChallenge(claim: Claim, options: ChallengeOptions): Promise<Challenge>;
  /** Reports the limit of another service to masters. */
  observe(constraint: string, room: ObservedRoom): void;
  /** Requests a heartbeat now. */
  hurry(): void;
}

/** The implementation of `Context` for a run. */
export class JobContext implements Context {
  readonly log: JobLog;
  readonly callbacks: readonly Callback[];
  readonly lastCheckpoint: unknown;
  readonly #claim: Claim;
  readonly #clock: LatestClock;
  readonly #services: Services;
  readonly #log: ClaimLog;

  constructor(claim: Claim, clock: LatestClock, services: Services) {
    this.#claim = claim;
    this.#clock = clock;
    this.#services = services;
    this.#log = services.logOf(claim);
    this.log = jobLog((level, text) => {
      this.#log.write(level, text);
    });
    this.callbacks = callbacksOf(claim.job);
    const saved = claim.job.checkpoint;
    this.lastCheckpoint = saved instanceof Uint8Array ? decode(saved) : undefined;
  }

  get jobId(): string {
    return this.#claim.job.job_id;
  }

  get name(): string {
    return this.#claim.job.name;
  }

  get namespace(): string {
    return this.#services.namespace;
  }

  get attempt(): number {
    return this.#claim.job.attempt;
  }

  get fence(): number {
    return this.#claim.job.fence;
  }

  get headers(): Readonly<Record<string, string>> {
    return this.#claim.job.headers;
  }

  get batch(): string | undefined {
    return this.#claim.job.batch ?? undefined;
  }

  get inputs(): readonly JobInput[] {
    return this.#claim.job.inputs ?? [];
  }

  get signal(): AbortSignal {
    return this.#claim.abort.signal;
  }

  remaining = (): number => Math.max(0, (this.#claim.deadlineMs - this.#clock.nowMs()) / 1000);

  progress(fraction: number | null, message = ""): void {
    this.#claim.progress = { fraction: fraction === null ? null : Math.min(Math.max(fraction, 0), 1), message: message.slice(0, 200).toWellFormed() };
  }

  used(units: Readonly<Record<string, number>>): void {
    this.#claim.used = { ...this.#claim.used, ...checkedUnits(units) };
    this.#claim.answeredMs = this.#clock.nowMs();
  }

  observed(constraint: string, room: ObservedRoom): void {
    this.#services.observe(constraint, checkedRoom(room));
    this.#claim.answeredMs = this.#clock.nowMs();
  }

  async checkpoint(value: unknown): Promise<void> {
    const bytes = encode(value);
    if (bytes.length > MAX_CHECKPOINT_BYTES) throw new RangeError(`a checkpoint has at most 16 KiB, but this one has ${bytes.length} bytes`);
    const saved = this.#claim.save(bytes);
    this.#services.hurry();
    await saved;
  }

  async openChallenge(options: ChallengeOptions = {}): Promise<Challenge> {
    check(CHALLENGE, options);
    return this.#services.openChallenge(this.#claim, options);
  }

  enqueue<Args, Result>(task: TaskLike<Args, Result>, args: Args, options?: JobOptions): Promise<JobHandle<Result>>;
  enqueue(task: string, args?: unknown, options?: JobOptions): Promise<JobHandle>;
  enqueue(task: string | TaskLike<unknown, unknown>, args?: unknown, options?: JobOptions): Promise<JobHandle> {
    return this.#services.pusher.enqueue(task as TaskLike<unknown, unknown>, args, options);
  }

  /** Returns when masters have the log and the checkpoint; undefined if they already have both. */
  flush(): Promise<unknown> | undefined {
    const { checkpoint } = this.#claim;
    const saved = checkpoint === undefined ? undefined : this.#claim.save(checkpoint.bytes).catch(() => undefined);
    if (saved !== undefined) this.#services.hurry();
    const logged = this.#log.flush();
    return saved === undefined && logged === undefined ? undefined : Promise.all([saved, logged]);
  }
}

/** Returns the log of a job, which writes lines to `write`. */
export function jobLog(write: (level: LogLevel, text: string) => void): JobLog {
  const at = (level: LogLevel) => (text: string) => {
    write(level, text);
  };
  return { debug: at("debug"), info: at("info"), warning: at("warning"), error: at("error"), critical: at("critical") };
}

function callbacksOf({ phase, callback, callbacks }: Dispatch): Callback[] {
  if (phase !== "callback") return [];
  const came = callbacks ?? (callback === null || callback === undefined ? [] : [callback]);
  return came.map(
    ({ content_type, body, received_at_ms }: OutsideCallback) => new Callback(content_type, body as Uint8Array, new Date(received_at_ms)),
  );
}
