/** The job as its handler sees it, and the calls that the handler may make. */

import type { JobHandle } from "../tasks/handle.js";
import type { TaskLike } from "../tasks/job.js";
import type { JobOptions } from "../pusher/options.js";
import type { JobInput, LogLevel } from "../wire/protocol.js";

/**
 * The log of a job, which people read in the web UI.
 *
 * @example
 * ```ts
 * ctx.log.info(`resized ${photoId}`);
 * ctx.log.warning("the photo has no profile");
 * ```
 */
export type JobLog = Readonly<Record<LogLevel, (text: string) => void>>;

/**
 * How a challenge is answered.
 *
 * @example
 * ```ts
 * const { callbackUrl } = await ctx.openChallenge({ answerWithin: 3600, meta: { order: 7 } });
 * ```
 */
export interface ChallengeOptions {
  /** Seconds to wait for the callback. Without it the attempt fails. Default: a day. */
  readonly answerWithin?: number;
  /** Number of callbacks to wait for. Default 1. */
  readonly expect?: number;
  /** A note for people, up to 4 KiB: what the challenge is about. */
  readonly meta?: unknown;
}

/**
 * The room that another service says it has left.
 *
 * @example
 * ```ts
 * ctx.observed("openai", { remaining: 41_000, resetsS: 12.5 });
 * ```
 */
export interface ObservedRoom {
  /** Value of the constraint's key, if it has one. */
  readonly value?: unknown;
  /** Units that may still be used, in the unit of the constraint. */
  readonly remaining: number;
  /** Seconds until the service has all of its room again. */
  readonly resetsS: number;
}

/** A challenge that was opened. */
export interface Challenge {
  /** The secret that answers it. */
  readonly requestId: string;
  /** The address at which the outside system posts its callback. */
  readonly callbackUrl: string;
}

/**
 * A callback of an outside system, as it came.
 *
 * @example
 * ```ts
 * const { tracking } = ctx.callbacks[0]!.json() as { tracking: string };
 * ```
 */
export class Callback {
  constructor(
    /** The type that its sender gave; empty if none. */
    readonly contentType: string,
    readonly body: Uint8Array,
    readonly receivedAt: Date,
  ) {}

  /** Returns the body as text in UTF-8. */
  text(): string {
    return new TextDecoder().decode(this.body);
  }

  /** Returns the value of a body in JSON. Throws SyntaxError. */
  json(): unknown {
    return JSON.parse(this.text());
  }
}

/**
 * Thrown by `ctx.checkpoint` when the checkpoint does not count: the job is another worker's by now, or over.
 *
 * @example
 * ```ts
 * await ctx.checkpoint(next).catch((error: unknown) => {
 *   throw error instanceof CheckpointNotSaved ? new Discard("another worker has the job") : error;
 * });
 * ```
 */
export class CheckpointNotSaved extends Error {
  override name = "CheckpointNotSaved";
}

/**
 * The job as its handler sees it, and the calls that the handler may make.
 *
 * @example
 * ```ts
 * const crawl = task<{ urls: string[] }, number>("site.crawl", { timeout: 3600 }, async ({ urls }, ctx) => {
 *   let next = (ctx.lastCheckpoint as number | undefined) ?? 0;
 *   for (; next < urls.length; next++) {
 *     await fetch(urls[next]!, { signal: ctx.signal });
 *     ctx.progress(next / urls.length, urls[next]);
 *     await ctx.checkpoint(next + 1);
 *   }
 *   return next;
 * });
 * ```
 */
export interface Context {
  readonly jobId: string;
  readonly name: string;
  /** The namespace of the job. `ctx.enqueue` enqueues there. */
  readonly namespace: string;
  /** Number of starts of the job, including this one. */
  readonly attempt: number;
  /** A number that grows with every claim of the job. Your database can use it to refuse a stale writer. */
  readonly fence: number;
  /** Headers as the pusher sent them. */
  readonly headers: Readonly<Record<string, string>>;
  /** The batch of which the job is a member, or that started it. */
  readonly batch: string | undefined;
  /** The jobs for which this one waited, with their results. */
  readonly inputs: readonly JobInput[];
  /**
   * Aborted when the job is to stop: it was canceled, its time or its lease is over, or the worker ends. Its `reason`
   * says which. A handler that ignores it keeps its slot until it returns.
   */
  readonly signal: AbortSignal;
  /** The seconds that are left until the timeout. */
  readonly remaining: () => number;
  /** The last checkpoint that an earlier attempt saved. Undefined: none did. */
  readonly lastCheckpoint: unknown;
  /** The log of the job. */
  readonly log: JobLog;
  /** The answers of outside systems, once the attempt goes on after a challenge. Empty before. */
  readonly callbacks: readonly Callback[];

  /**
   * Tells people how far the job is. It is sent with the next heartbeat.
   *
   * @param fraction The share that is done, 0 to 1; null: unknown.
   * @param message Up to 200 characters.
   */
  progress(fraction: number | null, message?: string): void;

  /**
   * Tells how much of a limit with a weight this attempt has used, for example the tokens of a model. When it ends,
   * however it ends, masters replace the estimate that was charged at its start. The last number of each unit counts.
   *
   * @param units Number of each unit, 0 to a billion.
   * @throws RangeError for a number out of range.
   */
  used(units: Readonly<Record<string, number>>): void;

  /**
   * Tells masters how much room another service says it has left. Until then, they start no more jobs than fit.
   *
   * @param constraint Name of the constraint that stands for the service's limit.
   * @throws RangeError for a number out of range.
   */
  observed(constraint: string, room: ObservedRoom): void;

  /**
   * Saves where the next attempt can go on, and returns when a master has stored it.
   *
   * @param value Any value that MessagePack can encode, up to 16 KiB.
   * @throws CheckpointNotSaved if the job is another worker's by now, or over.
   */
  checkpoint(value: unknown): Promise<void>;

  /**
   * Opens a challenge: an address at which another system answers. Throw `Challenged` after the work is handed over.
   *
   * @throws RefusedError, UnavailableError.
   */
  openChallenge(options?: ChallengeOptions): Promise<Challenge>;

  /** Enqueues another job at the masters of this worker. */
  enqueue<Args, Result>(task: TaskLike<Args, Result>, args: Args, options?: JobOptions): Promise<JobHandle<Result>>;
  enqueue(task: string, args?: unknown, options?: JobOptions): Promise<JobHandle>;
}
