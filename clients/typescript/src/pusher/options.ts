/** Options of jobs, in the form for programs and in wire form. */

import type { AfterWhen, JobRequest, OnConflict, UniqueScope } from "../wire/protocol.js";
import { snakeCase } from "../wire/names.js";

/** A job or a batch: its ID, or an object with its ID, such as a handle. */
export type Ref = string | { readonly id: string };

/**
 * The jobs for which a job waits: one, several, or a map with the option `when`.
 *
 * @example
 * ```ts
 * const first = await resize.enqueue({ photoId: 42 });
 * await publish.with({ after: { jobs: [first], when: "finished" } }).enqueue({ album: 7 });
 * ```
 */
export type After = Ref | readonly Ref[] | { readonly jobs: readonly Ref[]; readonly when?: AfterWhen };

/**
 * Options of a job, in addition to its name and argument. Their names are those of the wire in camelCase. The master's
 * defaults apply to omitted options.
 *
 * @example
 * ```ts
 * await resize.with({ priority: -5, delay: 60, keepResult: true }).enqueue({ photoId: 42 });
 * ```
 */
export interface JobOptions {
  /** The lowest number runs first. Default 0. */
  readonly priority?: number;
  /** Maximum number of retries after failed attempts. Default 5. */
  readonly maxRetry?: number;
  /** Keep the result until it is fetched. Default: drop the result. */
  readonly keepResult?: boolean;
  /** Maximum seconds of an attempt, up to 7 days. Default 30. */
  readonly timeout?: number;
  /** Seconds to wait before the first attempt. Cannot be combined with `runAt`. */
  readonly delay?: number;
  /** Earliest time of the first attempt. */
  readonly runAt?: Date | string;
  /** Seconds after the enqueue, by the clock of the master, after which the job is skipped if it still waits. */
  readonly expiresS?: number;
  /** A time instead of `expiresS`. */
  readonly expiresAt?: Date | string;
  /** A UUID that you choose, such as `newId()`. Enqueueing the same job again with this ID creates no second job. */
  readonly id?: string;
  /**
   * An idempotency key of your own, up to 200 bytes, such as `feed:42:7`. Enqueueing the same job again with this key
   * creates no second job, even when the first is gone.
   */
  readonly key?: string;
  /** Seconds for which the key works, from its first use, up to 30 days. Default: a day. */
  readonly keyTtl?: number;
  /** Up to 16 words by which people find the job. */
  readonly tags?: readonly string[];
  /** Up to 32 texts that reach the handler as `ctx.headers`. */
  readonly headers?: Readonly<Record<string, string>>;
  /** The backoff between attempts, in seconds. */
  readonly retry?: { readonly baseS?: number; readonly factor?: number; readonly maxS?: number; readonly jitter?: boolean };
  /** Run the job again if its worker is lost, even if `maxRetry` is 0. */
  readonly rerunLost?: boolean;
  /** A uniqueness key. Only one job with the same name holds the key at a time. */
  readonly unique?: {
    readonly key?: string | null;
    readonly scope?: UniqueScope;
    readonly ttlS?: number;
    readonly onConflict?: OnConflict;
  };
  /** Wait until no further jobs with the key are enqueued. Cannot be combined with `unique`, `delay` or `runAt`. */
  readonly debounce?: { readonly key?: string | null; readonly waitS: number; readonly maxS?: number };
  /** The batch of which the job is a member. */
  readonly batch?: Ref;
  /** The URL of a webhook to call when the job is over. */
  readonly notifyUrl?: string;
  /** A webhook with more options, such as the final states that trigger it. `withResult` needs `keepResult`. */
  readonly notify?: {
    readonly url: string;
    readonly on?: readonly ("succeeded" | "discarded" | "failed" | "canceled" | "skipped")[];
    readonly withResult?: boolean;
  };
  /** The jobs that must succeed before this one runs. */
  readonly after?: After;
  /** Labels. Only a worker that has all of them gets the job. */
  readonly requires?: Readonly<Record<string, string>>;
}

/** Options of a job in wire form. */
export type WireOptions = Omit<JobRequest, "name" | "argument">;

/** Fields whose values are maps of the wire. The keys of all other maps belong to the caller. */
const MAPS_OF_THE_WIRE: ReadonlySet<string> = new Set(["retry", "unique", "debounce", "notify"]);

/** Returns options in wire form. */
export function wireOptions(options: JobOptions): WireOptions {
  const given = Object.entries(options).filter(([, value]) => value !== undefined);
  return Object.fromEntries(given.map(([name, value]) => [snakeCase(name), wireValue(name, value)]));
}

/** Returns the ID of a job or a batch. */
export function idOf(ref: Ref): string {
  return typeof ref === "string" ? ref : ref.id;
}

function wireValue(name: string, value: unknown): unknown {
  if (value instanceof Date) return value.toISOString();
  if (name === "batch") return idOf(value as Ref);
  if (name === "after") return wireAfter(value as After);
  if (MAPS_OF_THE_WIRE.has(name)) {
    return Object.fromEntries(Object.entries(value as object).map(([key, item]) => [snakeCase(key), item as unknown]));
  }
  return value;
}

function wireAfter(after: After): WireOptions["after"] {
  if (typeof after === "object" && "jobs" in after) {
    return { jobs: after.jobs.map(idOf), ...(after.when === undefined ? {} : { when: after.when }) };
  }
  return { jobs: (Array.isArray(after) ? (after as readonly Ref[]) : [after as Ref]).map(idOf) };
}
