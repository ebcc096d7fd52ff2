/** Tasks: jobs as functions, typed on both sides. */

import { check, checkValue, without, type OptionKinds } from "../checks/options.js";
import { suggestMethods } from "../checks/other-queues.js";
import { checkNamespace } from "../masters/namespaces.js";
import type { Backend } from "../pusher/backend.js";
import { backend } from "../pusher/default.js";
import { JOB_OPTIONS, MANY, jobOptions, type JobOptions } from "../pusher/options.js";
import type { Context } from "../worker/context.js";
import { JobHandle } from "./handle.js";
import { jobOf, type Job, type TaskLike } from "./job.js";

/**
 * A function that runs jobs: it takes the argument, and returns the result.
 *
 * @example
 * ```ts
 * const handler: Handler<{ photoId: number }, { width: number }> = async ({ photoId }, ctx) => {
 *   const photo = await photos.load(photoId, { signal: ctx.signal });
 *   return { width: photo.width };
 * };
 * ```
 */
export type Handler<Args, Result> = (args: Args, ctx: Context) => Result | Promise<Result>;

/**
 * Options of all jobs of a task, and options of its handler.
 *
 * @example
 * ```ts
 * task("photo.resize", { timeout: 600, maxRetry: 8, keepResult: true, retryCodes: ["BUSY"] }, handler);
 * ```
 */
export interface TaskOptions
  extends Omit<JobOptions, "id" | "key" | "keyTtl" | "runAt" | "expiresAt" | "after" | "batch"> {
  /**
   * The codes of `CodedError` after which a job is retried. All other codes are final. Default: all codes are retried.
   */
  readonly retryCodes?: readonly string[];
}

/**
 * Options of `task.with`.
 *
 * @example
 * ```ts
 * await resize.with({ namespace: "mail", priority: 5 }).enqueue({ photoId: 42 });
 * ```
 */
export interface WithOptions extends JobOptions {
  /**
   * The namespace that the jobs go to, at the same masters. The handles read from the same namespace. Default: the
   * namespace of `configure`, or, in a handler, the namespace of its job. The option does not apply to flows and
   * batches, because each of them belongs to one namespace.
   */
  readonly namespace?: string;
}

/** The kinds of the options of a task. */
export const TASK_KINDS: OptionKinds<TaskOptions> = {
  ...without(JOB_OPTIONS, "id", "key", "keyTtl", "runAt", "expiresAt", "after", "batch"),
  retryCodes: "a list",
};

const TASK = jobOptions("task", TASK_KINDS);
const WITH = jobOptions<WithOptions>("with", { ...JOB_OPTIONS, namespace: "a text" });

/** The arguments of `enqueue`. They are optional if the handler takes none. */
type Given<Args> = undefined extends Args ? [args?: Args] : [args: Args];

const NAME = /^[A-Za-z0-9_.:/-]{1,200}$/;

/**
 * Jobs of one name, with a typed argument and a typed result. `task` makes it.
 *
 * @example
 * ```ts
 * const handle = await resize.enqueue({ photoId: 42 });
 * const handles = await resize.with({ priority: 5 }).many([{ photoId: 1 }, { photoId: 2 }]);
 * ```
 */
export class Task<Args = unknown, Result = unknown> implements TaskLike<Args, Result> {
  /** @internal */
  constructor(
    /** The name of the jobs. */
    readonly name: string,
    /** The options of jobs that this object enqueues. */
    readonly options: JobOptions,
    /** The codes with which a job is retried. */
    readonly retryCodes: ReadonlySet<string> | undefined,
    /** The function that runs the jobs. Undefined: this program only enqueues them. */
    readonly handler: Handler<Args, Result> | undefined,
    /** The namespace of jobs that this object enqueues, if `with` named one. */
    readonly namespace?: string,
  ) {}

  /**
   * Returns the task with further options for the jobs that are enqueued through it.
   *
   * @throws TypeError for an invalid name of a namespace.
   *
   * @example
   * ```ts
   * await resize.with({ delay: 60, priority: -5 }).enqueue({ photoId: 42 });
   * ```
   */
  with(given: WithOptions): Task<Args, Result> {
    check(WITH, given);
    const { namespace = this.namespace, ...options } = given;
    if (namespace !== undefined) checkNamespace(namespace);
    return new Task(this.name, { ...this.options, ...options }, this.retryCodes, this.handler, namespace);
  }

  /**
   * Enqueues a job, and returns its handle once a master has stored it.
   *
   * @throws RefusedError, UnavailableError; see `Pusher`.
   * @throws TypeError with the path of a value that cannot be sent.
   *
   * @example
   * ```ts
   * const handle = await resize.enqueue({ photoId: 42 });
   * ```
   */
  async enqueue(...args: Given<Args>): Promise<JobHandle<Result>> {
    this.#checkOne("enqueue", args);
    const to = this.#backend();
    return new JobHandle<Result>(this.name, await to.enqueueJob(jobOf<Args, Result>(this, args[0] as Args, {})), to);
  }

  /**
   * Enqueues a job for each argument, in calls of up to 1,000, and returns their handles in order.
   *
   * @param inOneCall Send all jobs in one call, up to 10,000. The master accepts all of them or none.
   *
   * @example
   * ```ts
   * const handles = await resize.many(photoIds.map((photoId) => ({ photoId })));
   * ```
   */
  async many(all: Iterable<Args>, options: { readonly inOneCall?: boolean } = {}): Promise<JobHandle<Result>[]> {
    check(MANY, options);
    const { inOneCall = false } = options;
    const to = this.#backend();
    const jobs = Array.from(all, (args) => jobOf<Args, Result>(this, args, {}));
    return (await to.enqueueJobs(jobs, inOneCall)).map((enqueued) => new JobHandle<Result>(this.name, enqueued, to));
  }

  /**
   * Returns a job without enqueueing it, for flows and for callbacks of batches.
   *
   * @throws TypeError if `with` named a namespace, because the call that enqueues the job chooses the namespace.
   *
   * @example
   * ```ts
   * await chain(resize.job({ photoId: 42 }), publish.job({ album: 7 })).enqueue();
   * ```
   */
  job(...args: Given<Args>): Job<Result> {
    this.#checkOne("job", args);
    if (this.namespace !== undefined) {
      throw new TypeError(`a job that is not enqueued yet belongs to no namespace: omit namespace ${this.namespace}, or enqueue it`);
    }
    return jobOf<Args, Result>(this, args[0] as Args, {});
  }

  /**
   * Returns the handle of a job that was enqueued before, by its ID.
   *
   * @example
   * ```ts
   * const { width } = await resize.handle(id).result({ wait: 10 });
   * ```
   */
  handle(jobId: string): JobHandle<Result> {
    return new JobHandle<Result>(this.name, jobId, this.#backend());
  }

  #checkOne(method: string, args: readonly unknown[]): void {
    if (args.length > 1) throw new TypeError(`${method} takes one argument, that of the job: give options before it, as in task.with({ delay: 60 }).${method}(argument)`);
  }

  #backend(): Backend {
    return this.namespace === undefined ? backend() : backend().inNamespace(this.namespace);
  }
}

suggestMethods(Task, {
  add: "enqueue",
  apply_async: "with({ … }).enqueue",
  applyAsync: "with({ … }).enqueue",
  defer: "with({ delay: … }).enqueue",
  delay: "enqueue, or with({ delay: … }).enqueue",
  enqueueMany: "many",
  enqueue_many: "many",
  push: "enqueue",
  run: "handler",
  schedule: "with({ runAt: … }).enqueue",
  send: "enqueue",
  to_job: "job",
  using: "with",
});

/** A task with any argument and result, for example for a worker. */
export type AnyTask = Task<never>;

/**
 * Defines a task.
 *
 * @param name The name of the jobs: 1 to 200 of `A-Z a-z 0-9 _ . : / -`.
 * @param options Options of all jobs of the task.
 * @param handler Runs the jobs. Omit it in a program that only enqueues them.
 *
 * @example
 * ```ts
 * export const resize = task<{ photoId: number; size?: number }, { width: number }>(
 *   "photo.resize",
 *   { timeout: 600, keepResult: true },
 *   async ({ photoId, size = 320 }, ctx) => {
 *     await photos.resize(photoId, size, { signal: ctx.signal });
 *     return { width: size };
 *   },
 * );
 * ```
 */
export function task<Args = unknown, Result = unknown>(name: string, handler: Handler<Args, Result>): Task<Args, Result>;
export function task<Args = unknown, Result = unknown>(
  name: string,
  options?: TaskOptions,
  handler?: Handler<Args, Result>,
): Task<Args, Result>;
export function task<Args, Result>(
  name: string,
  second: TaskOptions | Handler<Args, Result> = {},
  third?: Handler<Args, Result>,
): Task<Args, Result> {
  checkValue("task", "the name of the jobs", name, "a text");
  if (!NAME.test(name)) throw new TypeError(`not a name of jobs: ${JSON.stringify(name)}; use 1 to 200 of A-Z a-z 0-9 _ . : / -`);
  if (typeof second === "function" && third !== undefined) throw new TypeError("task takes its options before the handler: task(name, options, handler)");
  const [given, handler] = typeof second === "function" ? [{} as TaskOptions, second] : [second, third];
  check(TASK, given);
  if (handler !== undefined) checkValue("task", "the handler", handler, "a function");
  const { retryCodes, ...options } = given;
  return new Task(name, options, retryCodes === undefined ? undefined : new Set(retryCodes), handler);
}
