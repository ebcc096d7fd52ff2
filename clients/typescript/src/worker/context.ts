/** The data of the job for its handler, and the calls that the handler may make. */

import { checkedOptions } from "../checks/options.js";
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
 * Options of a challenge.
 *
 * @example
 * ```ts
 * const { callbackUrl } = await ctx.openChallenge({ answerWithin: 3600, meta: { order: 7 } });
 * ```
 */
export interface ChallengeOptions {
  /** Seconds to wait for the callback. If none comes, the attempt fails. Default: a day. */
  readonly answerWithin?: number;
  /** Number of callbacks to wait for. Default 1. */
  readonly expect?: number;
  /** A note for people about the challenge, up to 4 KiB. */
  readonly meta?: unknown;
}

/** The options of `ctx.openChallenge`. */
export const CHALLENGE = checkedOptions<ChallengeOptions>(
  "openChallenge",
  { answerWithin: "a number", expect: "a number", meta: "anything" },
  "{ answerWithin: 3600 }",
);

/**
 * The units that another service still accepts, as stated in its answer.
 *
 * @example
 * ```ts
 * ctx.observed("openai", { remaining: 41_000, resetsS: 12.5 });
 * ```
 */
export interface ObservedRoom {
  /** Value of the constraint's key, if it has a key. */
  readonly value?: unknown;
  /** Units that may still be used, in the unit of the constraint. */
  readonly remaining: number;
  /** Seconds until the service accepts all units again. */
  readonly resetsS: number;
}

/** The fields of the second argument of `ctx.observed`. */
export const ROOM = checkedOptions<ObservedRoom>(
  "observed",
  { value: "anything", remaining: "a number", resetsS: "a number" },
  "{ remaining: 41_000, resetsS: 12.5 }",
);

/** A challenge that was opened. */
export interface Challenge {
  /** The secret that an answer to the challenge must contain. */
  readonly requestId: string;
  /** The address at which the outside system posts its callback. */
  readonly callbackUrl: string;
}

/**
 * A callback of an outside system, as a master received it.
 *
 * @example
 * ```ts
 * const { tracking } = ctx.callbacks[0]!.json() as { tracking: string };
 * ```
 */
export class Callback {
  constructor(
    /** The content type that the sender stated. Empty: the sender stated no type. */
    readonly contentType: string,
    readonly body: Uint8Array,
    readonly receivedAt: Date,
  ) {}

  /** Returns the body as text in UTF-8. */
  text(): string {
    return new TextDecoder().decode(this.body);
  }

  /** Returns the value of a JSON body. Throws SyntaxError if the body is not JSON. */
  json(): unknown {
    return JSON.parse(this.text());
  }
}

/**
 * Thrown by `ctx.checkpoint` when the checkpoint was not saved: another worker has the job by now, or the job is over.
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
 * The data of the job for its handler, and the calls that the handler may make.
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
  /** The namespace of the job, in which `ctx.enqueue` enqueues. */
  readonly namespace: string;
  /** Number of starts of the job, including this start. */
  readonly attempt: number;
  /** A number that grows with every claim of the job. Your database can use it to refuse a stale writer. */
  readonly fence: number;
  /** Headers that the pusher sent. */
  readonly headers: Readonly<Record<string, string>>;
  /** The batch of which the job is a member or a callback. */
  readonly batch: string | undefined;
  /** The jobs that this job waited for, with their results. */
  readonly inputs: readonly JobInput[];
  /**
   * Aborted when the job is to stop: it was canceled, its time or its lease is over, or the worker ends. The `reason`
   * of the signal is the cause. A handler that ignores the signal keeps its slot until the handler returns.
   */
  readonly signal: AbortSignal;
  /** Returns the seconds until the timeout. */
  readonly remaining: () => number;
  /** The last checkpoint that an earlier attempt saved. Undefined: there is none. */
  readonly lastCheckpoint: unknown;
  /** The log of the job. */
  readonly log: JobLog;
  /** The answers of outside systems, after a challenge. Empty before they have come. */
  readonly callbacks: readonly Callback[];

  /**
   * Reports the progress of the job to people. It is sent with the next heartbeat.
   *
   * @param fraction The fraction of the work that is done, 0 to 1; null: unknown.
   * @param message Up to 200 characters.
   */
  progress(fraction: number | null, message?: string): void;

  /**
   * Reports how many units of a limit with a weight this attempt has used, such as tokens of a model. When the attempt
   * ends, in any way, this number replaces the estimate that was charged at the start. The last number of each unit
   * counts.
   *
   * @param units Number of each unit, 0 to a billion.
   * @throws RangeError for a number out of range.
   */
  used(units: Readonly<Record<string, number>>): void;

  /**
   * Reports to masters how many units another service still accepts. Until the service resets its limit, the masters
   * start only jobs that fit into these units.
   *
   * @param constraint Name of the constraint that represents the limit of the service.
   * @throws RangeError for a number out of range.
   */
  observed(constraint: string, room: ObservedRoom): void;

  /**
   * Saves a position from which the next attempt can continue, and returns when a master has stored it.
   *
   * @param value Any value that MessagePack can encode, up to 16 KiB.
   * @throws CheckpointNotSaved if another worker has the job by now, or the job is over.
   */
  checkpoint(value: unknown): Promise<void>;

  /**
   * Opens a challenge: an address at which another system answers. Hand the work over, and then throw `Challenged`.
   *
   * @throws RefusedError, UnavailableError.
   */
  openChallenge(options?: ChallengeOptions): Promise<Challenge>;

  /** Enqueues another job at the masters of this worker. */
  enqueue<Args, Result>(task: TaskLike<Args, Result>, args: Args, options?: JobOptions): Promise<JobHandle<Result>>;
  enqueue(task: string, args?: unknown, options?: JobOptions): Promise<JobHandle>;
}
