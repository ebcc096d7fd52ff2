/** Errors of calls to masters. */

import type { Problem, ProblemField } from "../wire/protocol.js";

/**
 * The base class of all errors that this package throws to pushers.
 *
 * @example
 * ```ts
 * try {
 *   await resize.many([{ photoId: 1 }, { photoId: 2 }]);
 * } catch (error) {
 *   if (error instanceof JqmasterError) console.error(error.acceptedIds, error.unknownIds);
 *   throw error;
 * }
 * ```
 */
export class JqmasterError extends Error {
  override name = "JqmasterError";
  /** The jobs of the call that were accepted although a later one failed. */
  acceptedIds: readonly string[] = [];
  /** The jobs that may have been accepted. You can safely enqueue them again with these IDs. */
  unknownIds: readonly string[] = [];
}

/**
 * A master understood the call and refused it (with a problem as in RFC 9457). Repeating the call does not help.
 *
 * @example
 * ```ts
 * try {
 *   await handle.cancel();
 * } catch (error) {
 *   if (error instanceof RefusedError && error.code === "job_succeeded") console.log("too late");
 *   else throw error;
 * }
 * ```
 */
export class RefusedError extends JqmasterError {
  override name = "RefusedError";
  /** The HTTP status. */
  readonly status: number;
  /** The stable name of the reason; docs/errors.md lists all names. */
  readonly code: Problem["code"];
  /** The reason, for people. */
  readonly detail: string;
  /** For each invalid field, its path and what is wrong with it. */
  readonly errors: readonly ProblemField[];

  constructor(status: number, problem: Partial<Problem>) {
    const code = problem.code ?? "unknown";
    const detail = problem.detail ?? problem.title ?? "";
    const errors = Array.isArray(problem.errors) ? problem.errors : [];
    const others = errors.filter(({ msg }) => !detail.includes(msg)).slice(0, 3);
    const rules = others.map(({ loc, msg }) => `${loc.join(".")}: ${msg}`).join("; ");
    super(`${status} ${code}: ${detail}${rules === "" ? "" : ` (${rules})`}`);
    this.status = status;
    this.code = code;
    this.detail = detail;
    this.errors = errors;
  }
}

/**
 * The job was refused because another job holds its uniqueness key.
 *
 * @example
 * ```ts
 * try {
 *   await resize.with({ unique: { key: "photo-42" } }).enqueue({ photoId: 42 });
 * } catch (error) {
 *   if (!(error instanceof NotUniqueError)) throw error;
 *   console.log(`job ${error.jobId} does it already`);
 * }
 * ```
 */
export class NotUniqueError extends RefusedError {
  override name = "NotUniqueError";
  /** The job that holds the key. After `many`, the holder for the first refused job. */
  readonly jobId: string;

  constructor(status: number, problem: Partial<Problem>) {
    super(status, problem);
    this.jobId = problem.job_id ?? "";
  }
}

/**
 * No master gave a final answer in time. The call may have been carried out.
 *
 * @example
 * ```ts
 * try {
 *   await resize.enqueue({ photoId: 42 });
 * } catch (error) {
 *   if (!(error instanceof UnavailableError)) throw error;
 *   console.log("enqueue these again with their IDs", error.unknownIds);
 * }
 * ```
 */
export class UnavailableError extends JqmasterError {
  override name = "UnavailableError";
}

/**
 * The answer is about another job than the call. Something between pusher and master, such as a proxy, mixed up
 * answers. The answer is dropped.
 *
 * @example
 * ```ts
 * try {
 *   await handle.refresh();
 * } catch (error) {
 *   if (error instanceof AnswerMismatchError) console.error(error.asked, error.answered);
 * }
 * ```
 */
export class AnswerMismatchError extends JqmasterError {
  override name = "AnswerMismatchError";

  constructor(
    /** The IDs in the call. */
    readonly asked: readonly string[],
    /** The IDs in the answer. */
    readonly answered: readonly string[],
  ) {
    super(`asked about ${shown(asked)}, the answer is about ${shown(answered)}`);
  }
}

/** Returns the error for a refusal. */
export function refused(status: number, problem: Partial<Problem>): RefusedError {
  const Kind = problem.code === "not_unique" ? NotUniqueError : RefusedError;
  return new Kind(status, problem);
}

function shown(ids: readonly string[]): string {
  return ids.length === 1 ? `job ${String(ids[0])}` : `${ids.length} jobs`;
}
