/** The receiver of jobs: a pusher, or in tests a store of the test kit. */

import { checkedOptions } from "../checks/options.js";
import type { Job } from "../tasks/job.js";
import type { BatchRequest, BatchView, JobRequest, JobView, ResultView } from "../wire/protocol.js";

/** A job with an ID, as it is sent. */
export type ReadyJob = JobRequest & { readonly id: string };

/** The job that a push made, or the existing one that it found. */
export interface Enqueued {
  readonly id: string;
  /** The call made no new job, because this job holds the uniqueness key. This job is unchanged. */
  readonly isDuplicate: boolean;
  /** The call made no new job. This waiting job got the arguments and options of the call. */
  readonly isReplaced: boolean;
}

/**
 * How long to wait for a result.
 *
 * @example
 * ```ts
 * await handle.result({ wait: 10 });
 * ```
 */
export interface WaitOptions {
  /** Seconds to wait; 0 to check once. Default: no limit. */
  readonly wait?: number;
  /** Ends the wait. The promise is then rejected with the signal's reason. */
  readonly signal?: AbortSignal;
}

/** The options of `result`. */
export const WAIT = checkedOptions<WaitOptions>("result", { wait: "a number", signal: "an object" }, "{ wait: 10 }");

/** A batch with an ID, as it is sent. */
export type ReadyBatch = BatchRequest & { readonly id: string };

/** Accepts jobs, and returns their outcomes. */
export interface Backend {
  enqueueJob(job: Job): Promise<Enqueued>;
  enqueueJobs(jobs: readonly Job[], inOneCall?: boolean): Promise<Enqueued[]>;
  /** Returns null if there is no result. Throws NotFinished if the job is not over. */
  fetchResult(jobId: string, options: WaitOptions): Promise<ResultView | null>;
  status(jobId: string): Promise<JobView>;
  cancel(jobId: string): Promise<JobView>;
  createBatch(batch: ReadyBatch): Promise<void>;
  sealBatch(batchId: string): Promise<void>;
  cancelBatch(batchId: string): Promise<void>;
  retryBatch(batchId: string): Promise<void>;
  batchStatus(batchId: string): Promise<BatchView>;
  /** Returns the receiver of jobs in another namespace. Throws TypeError if the name is invalid. */
  inNamespace(namespace: string): Backend;
}
