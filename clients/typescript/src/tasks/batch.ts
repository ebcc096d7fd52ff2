/** Batches: jobs that belong together, and the jobs that start when they are over. */

import { check, checkValue, checkedOptions } from "../checks/options.js";
import type { Backend, ReadyBatch } from "../pusher/backend.js";
import { backend } from "../pusher/default.js";
import { JOB_OPTIONS, idOf, type Ref } from "../pusher/options.js";
import { newId } from "../wire/ids.js";
import type { BatchRequest, BatchView } from "../wire/protocol.js";
import { checkedJob, type Job } from "./job.js";

/**
 * Options of a batch.
 *
 * @example
 * ```ts
 * const options: BatchOptions = { onSuccess: publish.job({ album: 7 }), description: "thumbnails of May" };
 * ```
 */
export interface BatchOptions {
  /**
   * A job that starts when all members have succeeded or were discarded, even if some failed first and were retried.
   */
  readonly onSuccess?: Job;
  /** A job that starts when all members are over, however they ended. */
  readonly onComplete?: Job;
  /** A job that starts when the first member fails for good. */
  readonly onFailure?: Job;
  /** A text for people. */
  readonly description?: string;
  /** Words by which people find the batch. */
  readonly tags?: readonly string[];
  /** The batch that this batch is a member of. */
  readonly batch?: Ref;
  /** Seconds from now. If the batch is not complete then, it is canceled. */
  readonly expiresS?: number;
}

const OPTIONS = checkedOptions<BatchOptions>(
  "batch",
  {
    onSuccess: "anything",
    onComplete: "anything",
    onFailure: "anything",
    description: "a text",
    tags: "a list",
    batch: "anything",
    expiresS: "a number",
  },
  '{ description: "photos of May" }',
);

/** The fields of a callback that the master accepts. The master generates the callback's ID. */
const CALLBACK_FIELDS: ReadonlySet<string> = new Set([
  "name", "argument", "delay", "priority", "max_retry", "timeout", "retry", "tags", "keep_result", "rerun_lost", "headers",
  "requires", "expires_s",
]);

/**
 * A batch. The function `batch` makes it.
 *
 * @example
 * ```ts
 * const { state, counts } = await made.status();
 * ```
 */
export class Batch {
  readonly #backend: Backend;

  /** @internal */
  constructor(
    readonly id: string,
    to: Backend,
  ) {
    this.#backend = to;
  }

  /**
   * Returns the batch as the master shows it.
   *
   * @example
   * ```ts
   * const { state, counts } = await made.status();
   * console.log(state, counts.succeeded, counts.total);
   * ```
   */
  status(): Promise<BatchView> {
    return this.#backend.batchStatus(this.id);
  }

  /**
   * Cancels all members that are not over. The batch accepts no more jobs.
   *
   * @example
   * ```ts
   * await made.cancel();
   * ```
   */
  cancel(): Promise<void> {
    return this.#backend.cancelBatch(this.id);
  }

  /**
   * Retries the members that failed.
   *
   * @example
   * ```ts
   * await made.retry();
   * ```
   */
  retry(): Promise<void> {
    return this.#backend.retryBatch(this.id);
  }
}

/**
 * Makes a batch, lets `fill` enqueue its members, and seals it. If `fill` throws, the batch is canceled.
 *
 * @param fill Enqueues the members, with the option `batch`.
 *
 * @example
 * ```ts
 * const made = await batch({ onSuccess: publish.job({ album: 7 }) }, async (album) => {
 *   await resize.with({ batch: album }).many([{ photoId: 1 }, { photoId: 2 }]);
 * });
 * ```
 */
export async function batch(options: BatchOptions, fill: (batch: Batch) => Promise<unknown>): Promise<Batch> {
  check({ ...OPTIONS, ofJobs: Object.keys(JOB_OPTIONS) }, options);
  checkValue("batch", "the second argument, which enqueues the members,", fill, "a function");
  const to = backend();
  const request = wireBatch(options);
  await to.createBatch(request);
  const made = new Batch(request.id, to);
  try {
    await fill(made);
  } catch (error) {
    // best effort: the error of the caller is more important.
    await made.cancel().catch(() => undefined);
    throw error;
  }
  await to.sealBatch(made.id);
  return made;
}

function wireBatch({ onSuccess, onComplete, onFailure, description, tags, batch: parent, expiresS }: BatchOptions): ReadyBatch {
  return {
    id: newId(),
    ...(onSuccess === undefined ? {} : { on_success: callbackOf(onSuccess) }),
    ...(onComplete === undefined ? {} : { on_complete: callbackOf(onComplete) }),
    ...(onFailure === undefined ? {} : { on_failure: callbackOf(onFailure) }),
    ...(description === undefined ? {} : { description }),
    ...(tags === undefined ? {} : { tags: [...tags] }),
    ...(parent === undefined ? {} : { batch: idOf(parent) }),
    ...(expiresS === undefined ? {} : { expires_s: expiresS }),
  };
}

function callbackOf(job: Job): NonNullable<BatchRequest["on_success"]> {
  const { request } = checkedJob(job);
  const fields = Object.entries(request).filter(([field]) => field !== "id");
  const other = fields.find(([field]) => !CALLBACK_FIELDS.has(field));
  if (other !== undefined) throw new TypeError(`the callback of a batch cannot have the option ${other[0]}`);
  return Object.fromEntries(fields) as unknown as NonNullable<BatchRequest["on_success"]>;
}
