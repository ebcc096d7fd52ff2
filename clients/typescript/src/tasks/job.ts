/** Jobs that are ready to be enqueued. */

import type { ReadyJob } from "../pusher/backend.js";
import { checkValue } from "../checks/options.js";
import { wireOptions, type JobOptions } from "../pusher/options.js";
import { newId } from "../wire/ids.js";

declare const RESULT: unique symbol;

/** The part of a task that makes jobs. */
export interface TaskLike<Args, Result> {
  readonly name: string;
  readonly options: JobOptions;
  /** The namespace of the jobs, if it differs from that of the caller. */
  readonly namespace?: string | undefined;
  /** For types only. @internal */
  readonly [RESULT]?: (args: Args) => Result;
}

/**
 * A job that is ready to be enqueued, with an ID. `task.job(…)` returns it, for flows and for callbacks of batches.
 *
 * @example
 * ```ts
 * const job = resize.job({ photoId: 42 });
 * await chain(job, publish.job({ album: 7 })).enqueue();
 * ```
 */
export class Job<Result = unknown> {
  /** For types only. @internal */
  declare readonly [RESULT]?: Result;

  constructor(
    /** The job in wire form. */
    readonly request: ReadyJob,
    /** The task of the job. The test kit runs its handler. @internal */
    readonly task?: TaskLike<never, unknown>,
  ) {}

  get id(): string {
    return this.request.id;
  }

  get name(): string {
    return this.request.name;
  }
}

/** Returns the given job. Throws TypeError for any other value, such as a task or a handle. */
export function checkedJob(given: Job): Job {
  const isJob = typeof given === "object" && typeof (given as Partial<Job> | null)?.request === "object";
  if (!isJob) throw new TypeError("not a job: give what task.job(…) returns");
  return given;
}

/** Returns a job of a task, or of a name. */
export function jobOf<Args, Result>(task: string | TaskLike<Args, Result>, args: Args, options: JobOptions): Job<Result> {
  checkValue("enqueue", "the task, or its name,", typeof task === "string" ? task : (task as Partial<typeof task> | undefined)?.name, "a text");
  const [name, own] = typeof task === "string" ? [task, {}] : [task.name, task.options];
  const { id = newId(), ...fields } = wireOptions({ ...own, ...options });
  const request = { name, argument: args ?? null, ...fields, id: id ?? newId() };
  return typeof task === "string" ? new Job(request) : new Job(request, task);
}
