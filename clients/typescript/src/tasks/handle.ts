/** Handles of enqueued jobs: their states and results. */

import { check, checkValue } from "../checks/options.js";
import { suggestMethods } from "../checks/other-queues.js";
import { RefusedError } from "../errors/calls.js";
import { JobFailed, NotFinished, ResultGone, noResultOf } from "../errors/results.js";
import { WAIT, type Backend, type Enqueued, type WaitOptions } from "../pusher/backend.js";
import type { JobState, JobView, ProgressView, ResultView } from "../wire/protocol.js";

/**
 * A job that was enqueued.
 *
 * @example
 * ```ts
 * const handle = await resize.with({ keepResult: true }).enqueue({ photoId: 42 });
 * const { width } = await handle.result({ wait: 10 });
 * ```
 */
export class JobHandle<Result = unknown> {
  /** ID of the job. */
  readonly id: string;
  /** The call made no new job, because this job holds the uniqueness key. This job is unchanged. */
  readonly isDuplicate: boolean;
  /** The call made no new job. This waiting job got the arguments and options of the call. */
  readonly isReplaced: boolean;
  /** The last known state of the job. Undefined: no master was asked yet. */
  state: JobState | undefined;
  readonly #backend: Backend;
  // Kept here, because a master deletes a result soon after it was first fetched.
  #outcome: (() => Result) | undefined;

  constructor(
    /** Name of the job and of its task. Empty if the handle was made from an ID. */
    readonly name: string,
    enqueued: Enqueued | string,
    backend: Backend,
  ) {
    const { id, isDuplicate, isReplaced } =
      typeof enqueued === "string" ? { id: enqueued, isDuplicate: false, isReplaced: false } : enqueued;
    checkValue("handle", "the ID of the job", id, "a text");
    this.id = id;
    this.isDuplicate = isDuplicate;
    this.isReplaced = isReplaced;
    this.#backend = backend;
  }

  /**
   * Waits for the job to end, and returns its result. The job needs `keepResult`. The master deletes a result 60 s
   * (`result_grace_s`) after it was first fetched; this handle keeps the result.
   *
   * @throws NotFinished if the job did not end within `wait`.
   * @throws JobFailed, JobCanceled, JobSkipped, JobDiscarded if the job ended in another way.
   * @throws ResultNotKept, ResultGone if the job succeeded, but there is no result.
   * @throws UnavailableError if no master answers.
   *
   * @example
   * ```ts
   * try {
   *   console.log(await handle.result({ wait: 10 }));
   * } catch (error) {
   *   if (error instanceof JobFailed) console.error(error.reason, error.traceback);
   *   else throw error;
   * }
   * ```
   */
  async result(options: WaitOptions = {}): Promise<Result> {
    check(WAIT, options);
    this.#outcome ??= await this.#fetchOutcome(options);
    return this.#outcome();
  }

  /**
   * Fetches the job from a master.
   *
   * @throws ResultGone if no job has this ID any more.
   *
   * @example
   * ```ts
   * const { state, attempts } = await handle.refresh();
   * ```
   */
  async refresh(): Promise<JobView> {
    const view = await this.#backend.status(this.id).catch((error: unknown) => {
      throw isUnknown(error) ? new ResultGone(this.id, `job ${this.id} is unknown`) : error;
    });
    this.state = view.state;
    return view;
  }

  /**
   * Fetches the progress of the job from a master. Undefined: no attempt has reported progress.
   *
   * @example
   * ```ts
   * const progress = await handle.progress();
   * console.log(progress?.fraction, progress?.message);
   * ```
   */
  async progress(): Promise<ProgressView | undefined> {
    return (await this.refresh()).progress ?? undefined;
  }

  /**
   * Cancels the job. A running job is canceled once its worker has stopped it.
   *
   * @throws RefusedError if the job is over.
   *
   * @example
   * ```ts
   * const handle = await resize.with({ delay: 3600 }).enqueue({ photoId: 42 });
   * await handle.cancel();
   * ```
   */
  async cancel(): Promise<void> {
    this.state = (await this.#backend.cancel(this.id)).state;
  }

  async #fetchOutcome(options: WaitOptions): Promise<() => Result> {
    const result = await this.#backend.fetchResult(this.id, options).catch((error: unknown) => {
      if (error instanceof NotFinished) this.state = error.state;
      throw error;
    });
    if (result !== null) {
      this.state = result.type === "success" ? "succeeded" : "failed";
      return this.#outcomeOf(result);
    }
    const view = await this.refresh().catch((error: unknown) => {
      if (error instanceof ResultGone) return undefined;
      throw error;
    });
    return () => {
      throw view === undefined ? new ResultGone(this.id) : noResultOf(view);
    };
  }

  #outcomeOf(result: ResultView): () => Result {
    if (result.type === "success") return () => result.result as Result;
    const reason = result.reason === "other" ? "error" : result.reason;
    return () => {
      throw new JobFailed(this.id, { reason, text: result.message, error: result.error, code: result.code });
    };
  }
}

suggestMethods(JobHandle, { get: "result", return_value: "result", returnValue: "result", status: "refresh", wait: "result({ wait: 10 })" });

function isUnknown(error: unknown): boolean {
  return error instanceof RefusedError && error.status === 404;
}
