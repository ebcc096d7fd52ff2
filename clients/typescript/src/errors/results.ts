/** Errors of `handle.result()` if there is no result. */

import type { JobState, JobView } from "../wire/protocol.js";
import { JqmasterError } from "./calls.js";

/** Advice for a job that is not over, by its state. */
const NEXT_STEPS: Readonly<Partial<Record<JobState, (jobId: string) => string>>> = {
  ready: (jobId) => `: no worker has started it yet. "jqmaster why ${jobId}" explains why.`,
  retrying: (jobId) => `: its last attempt failed. "jqmaster job ${jobId}" shows the error, and so does (await handle.refresh()).attempts.`,
};

/**
 * The job did not end in time.
 *
 * @example
 * ```ts
 * try {
 *   await handle.result({ wait: 1 });
 * } catch (error) {
 *   if (error instanceof NotFinished) console.log(error.jobId, error.state, error.lastError);
 * }
 * ```
 */
export class NotFinished extends JqmasterError {
  override name = "NotFinished";

  constructor(
    readonly jobId: string,
    /** The state of the job, such as `running`. */
    readonly state: JobState,
    /**
     * The beginning of the last error message, if the job is `retrying`. Missing if the message is unknown, or if your
     * token may not read it.
     */
    readonly lastError?: string,
  ) {
    const nextStep = lastError ? `: its last attempt failed: ${lastError}` : NEXT_STEPS[state]?.(jobId);
    super(`job ${jobId} is ${state}${nextStep ?? ""}`);
  }
}

/**
 * The job is over and has no result to return. The subclasses say why.
 *
 * @example
 * ```ts
 * const width = await handle.result({ wait: 10 }).catch((error: unknown) => {
 *   if (error instanceof NoResultError) return undefined;
 *   throw error;
 * });
 * ```
 */
export class NoResultError extends JqmasterError {
  override name = "NoResultError";

  constructor(
    readonly jobId: string,
    message: string,
  ) {
    super(message);
  }
}

/**
 * The result was kept, but is deleted by now: somebody fetched it a while ago, or nobody fetched it in time. The error
 * also means that no job has this ID any more.
 *
 * @example
 * ```ts
 * if (error instanceof ResultGone) console.log("it was fetched a while ago");
 * ```
 */
export class ResultGone extends NoResultError {
  override name = "ResultGone";

  constructor(jobId: string, message = `the result of job ${jobId} is gone: it was fetched earlier, or has expired`) {
    super(jobId, message);
  }
}

/**
 * The job succeeded, but was enqueued without `keepResult`.
 *
 * @example
 * ```ts
 * if (error instanceof ResultNotKept) console.log("enqueue it by resize.with({ keepResult: true })");
 * ```
 */
export class ResultNotKept extends NoResultError {
  override name = "ResultNotKept";

  constructor(jobId: string) {
    super(jobId, `the result of job ${jobId} was not kept; enqueue the job with keepResult: true`);
  }
}

/**
 * The job was canceled.
 *
 * @example
 * ```ts
 * if (error instanceof JobCanceled) console.log(error.jobId);
 * ```
 */
export class JobCanceled extends NoResultError {
  override name = "JobCanceled";

  constructor(jobId: string) {
    super(jobId, `job ${jobId} was canceled`);
  }
}

/**
 * The handler discarded the job: there was nothing left to do.
 *
 * @example
 * ```ts
 * if (error instanceof JobDiscarded) console.log(error.reason);
 * ```
 */
export class JobDiscarded extends NoResultError {
  override name = "JobDiscarded";

  constructor(
    jobId: string,
    /** The reason, for people. */
    readonly reason: string,
  ) {
    super(jobId, `job ${jobId} was discarded${reason === "" ? "" : `: ${reason}`}`);
  }
}

/**
 * The job was skipped. It did not run in time (`expired`), a job for which it waited did not succeed (`dependency`), or
 * another job took its uniqueness key (`superseded`).
 *
 * @example
 * ```ts
 * if (error instanceof JobSkipped) console.log(error.reason);
 * ```
 */
export class JobSkipped extends NoResultError {
  override name = "JobSkipped";

  constructor(
    jobId: string,
    /** `expired`, `dependency` or `superseded`. */
    readonly reason: string,
  ) {
    super(jobId, `job ${jobId} was skipped: ${reason}`);
  }
}

/** The known data about a failure. */
export interface Failure {
  /** `error`, `timeout`, `invalid_argument`, `undecodable`, `lost`, … */
  readonly reason: string;
  /** The reason, for people. */
  readonly text: string;
  /** The error as the worker reported it: a map of `type`, `message` and `traceback` if something was thrown. */
  readonly error: unknown;
  /** The name that the worker gave to the failure, such as `RESOURCE_CONFLICT`. */
  readonly code?: string | undefined;
}

/**
 * The job failed for good.
 *
 * @example
 * ```ts
 * if (error instanceof JobFailed) console.error(error.reason, error.errorType, error.traceback);
 * ```
 */
export class JobFailed extends NoResultError {
  override name = "JobFailed";
  /** `error`, `timeout`, `invalid_argument`, `undecodable`, `lost`, … */
  readonly reason: string;
  /** The name that the worker gave to the failure, such as `RESOURCE_CONFLICT`. Empty: none. */
  readonly code: string;
  /** The error as the worker reported it. */
  readonly error: unknown;
  /** The class of the thrown error, such as `RangeError`. Empty if nothing was thrown. */
  readonly errorType: string;
  /** The stack of the thrown error as text. Empty if there was none. */
  readonly traceback: string;

  constructor(jobId: string, { reason, text, error, code = "" }: Failure) {
    super(jobId, `job ${jobId} failed (${reason})${text === "" ? "" : `: ${text}`}`);
    this.reason = reason;
    this.code = code;
    this.error = error;
    const told = (typeof error === "object" && error !== null ? error : {}) as Record<string, unknown>;
    this.errorType = textOf(told["type"]);
    this.traceback = textOf(told["traceback"]);
  }
}

/** Returns the error for a job that is over without a result. */
export function noResultOf(view: JobView): NoResultError {
  const reason = view.cause ?? "error";
  const last = view.attempts.at(-1);
  switch (view.state) {
    case "succeeded":
      return view.keep_result ? new ResultGone(view.id) : new ResultNotKept(view.id);
    case "canceled":
      return new JobCanceled(view.id);
    case "discarded":
      return new JobDiscarded(view.id, last?.message ?? "");
    case "skipped":
      return new JobSkipped(view.id, reason);
    default:
      return new JobFailed(view.id, {
        reason,
        text: last?.message ?? "",
        error: last?.error ?? null,
        code: last?.code ?? undefined,
      });
  }
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}
