/** Options of jobs, in the form for programs and in wire form. */

import { check, checkValue, checkedOptions, type CheckedOptions, type OptionKinds } from "../checks/options.js";
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
 * Options of a job, in addition to its name and argument. The names are the names on the wire, in camelCase. The
 * master's defaults apply to omitted options.
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
  /** Keep the result, so that it can be fetched. Default: drop the result. */
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
  /** The jobs that must succeed before this job runs. */
  readonly after?: After;
  /** Labels. Only a worker with all these labels gets the job. */
  readonly requires?: Readonly<Record<string, string>>;
}

/** The kinds of the options of a job. `after` and `batch` are checked where they are converted. */
export const JOB_OPTIONS: OptionKinds<JobOptions> = {
  priority: "a number",
  maxRetry: "a number",
  keepResult: "true or false",
  timeout: "a number",
  delay: "a number",
  runAt: "a Date or a text",
  expiresS: "a number",
  expiresAt: "a Date or a text",
  id: "a text",
  key: "a text",
  keyTtl: "a number",
  tags: "a list",
  headers: "an object",
  retry: { baseS: "a number", factor: "a number", maxS: "a number", jitter: "true or false" },
  rerunLost: "true or false",
  unique: { key: "anything", scope: "a text", ttlS: "a number", onConflict: "a text" },
  debounce: { key: "anything", waitS: "a number", maxS: "a number" },
  batch: "anything",
  notifyUrl: "a text",
  notify: { url: "a text", on: "a list", withResult: "true or false" },
  after: "anything",
  requires: "an object",
};

/** Returns the options of a call that takes options of jobs. */
export function jobOptions<Options>(of: string, kinds: OptionKinds<Options>): CheckedOptions {
  return { ...checkedOptions(of, kinds, "{ delay: 60 }"), takesNull: true };
}

/** The options of one job. */
export const ENQUEUE = jobOptions("enqueue", JOB_OPTIONS);

/** The option of calls that enqueue many jobs. */
export const MANY = { ...checkedOptions<{ readonly inOneCall?: boolean }>("many and enqueueMany", { inOneCall: "true or false" }, "{ inOneCall: true }"), ofJobs: Object.keys(JOB_OPTIONS) };

const AFTER = checkedOptions<Extract<After, { readonly jobs: unknown }>>("after", { jobs: "a list", when: "a text" }, "{ jobs: [first] }");

/** Options of a job in wire form. */
export type WireOptions = Omit<JobRequest, "name" | "argument">;

/** Fields with maps of the wire as their values. The keys of all other maps belong to the caller. */
const MAPS_OF_THE_WIRE: ReadonlySet<string> = new Set(["retry", "unique", "debounce", "notify"]);

/** Returns options in wire form. */
export function wireOptions(options: JobOptions): WireOptions {
  const given = Object.entries(options).filter(([, value]) => value !== undefined);
  return Object.fromEntries(given.map(([name, value]) => [snakeCase(name), wireValue(name, value)]));
}

/** Returns the ID of a job or a batch. */
export function idOf(ref: Ref): string {
  const id: unknown = typeof ref === "object" ? ref.id : ref;
  checkValue("a job or batch", "its ID", id, "a text");
  return id as string;
}

function wireValue(name: string, value: unknown): unknown {
  if (value === null) return null;
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
    check(AFTER, after);
    return { jobs: after.jobs.map(idOf), ...(after.when === undefined ? {} : { when: after.when }) };
  }
  return { jobs: (Array.isArray(after) ? (after as readonly Ref[]) : [after as Ref]).map(idOf) };
}
