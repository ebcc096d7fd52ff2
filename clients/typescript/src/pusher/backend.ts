/** The receiver of jobs: a pusher, or in tests a store of the test kit. */

import type { Job } from "../tasks/job.js";
import type { BatchRequest, BatchView, JobRequest, JobView, ResultView } from "../wire/protocol.js";

/** A job with an ID, as it is sent. */
export type ReadyJob = JobRequest & { readonly id: string };

/** The job that a push made, or found. */
export interface Enqueued {
  readonly id: string;
  /** No job was made, because this job holds its uniqueness key. It stayed as it was. */
  readonly isDuplicate: boolean;
  /** No job was made; this waiting job took the arguments and options of the call. */
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
  /** Seconds to wait; 0 to look once. Default: as long as it takes. */
  readonly wait?: number;
  /** Ends the wait; the promise is rejected with its reason. */
  readonly signal?: AbortSignal;
}

/** A batch with an ID, as it is sent. */
export type ReadyBatch = BatchRequest & { readonly id: string };

/** Takes jobs, and tells their outcomes. */
export interface Backend {
  enqueueJob(job: Job): Promise<Enqueued>;
  enqueueJobs(jobs: readonly Job[], inOneCall?: boolean): Promise<Enqueued[]>;
  /** Returns null where there is nothing to return. Throws NotFinished. */
  fetchResult(jobId: string, options: WaitOptions): Promise<ResultView | null>;
  status(jobId: string): Promise<JobView>;
  cancel(jobId: string): Promise<JobView>;
  createBatch(batch: ReadyBatch): Promise<void>;
  sealBatch(batchId: string): Promise<void>;
  cancelBatch(batchId: string): Promise<void>;
  retryBatch(batchId: string): Promise<void>;
  batchStatus(batchId: string): Promise<BatchView>;
  /** Returns the place of the jobs of another namespace. Throws TypeError if none can have this name. */
  inNamespace(namespace: string): Backend;
}
