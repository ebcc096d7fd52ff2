/**
 * Test code that enqueues or handles jobs, without a master.
 *
 * @packageDocumentation
 */

import { check, checkValue, checkedOptions } from "../checks/options.js";
import { withBackend } from "../pusher/default.js";
import type { AnyTask } from "../tasks/task.js";
import type { Recorded, Run } from "./run.js";
import { TestRunner } from "./runner.js";
import { TestStore } from "./store.js";

export type { Recorded, Run } from "./run.js";

/**
 * How jobs of a test run.
 *
 * @example
 * ```ts
 * await drain(jobs, { tasks: [sendMail], raises: false });
 * ```
 */
export interface RunOptions {
  /** Tasks with handlers, for jobs that were enqueued by name or by a task without a handler. */
  readonly tasks?: readonly AnyTask[];
  /** Throw the error of the first job that fails for good. Default true. */
  readonly raises?: boolean;
}

const OPTIONS = checkedOptions<RunOptions>("inline and drain", { tasks: "a list", raises: "true or false" }, "{ tasks: [sendMail] }");

const stores = new WeakMap<Recorded, TestStore>();

/**
 * Records the jobs that a function and its callees enqueue, instead of sending them. Handlers do not run;
 * `drain` runs them. Returns the list of jobs.
 *
 * @example
 * ```ts
 * const jobs = await recording(() => signUp("ada"));
 * assert.deepEqual(jobs.only(sendMail).args, { to: "ada" });
 * ```
 */
export async function recording(run: (jobs: Recorded) => unknown): Promise<Recorded> {
  checkValue("recording", "the argument", run, "a function");
  const store = new TestStore();
  stores.set(store.runs, store);
  await withBackend(store, () => run(store.runs));
  return store.runs;
}

/**
 * Runs the jobs that a function enqueues at once. Retries run at once, too, and delays are skipped. Returns the list of
 * jobs.
 *
 * @example
 * ```ts
 * await inline(async () => {
 *   const handle = await resize.with({ keepResult: true }).enqueue({ photoId: 42 });
 *   assert.deepEqual(await handle.result({ wait: 0 }), { width: 320 });
 * });
 * ```
 */
export async function inline(run: (jobs: Recorded) => unknown, options: RunOptions = {}): Promise<Recorded> {
  checkValue("inline", "the first argument", run, "a function");
  check(OPTIONS, options);
  const { tasks = [], raises = true } = options;
  const store = new TestStore();
  stores.set(store.runs, store);
  const runner = new TestRunner(store, tasks, raises);
  store.onEnqueued = async () => {
    await runner.drain();
  };
  await withBackend(store, () => run(store.runs));
  return store.runs;
}

/**
 * Runs recorded jobs, and the jobs that they enqueue, until no job can run any more. A virtual clock skips delays and
 * backoffs, and the jobs run in the order in which they would be due. Returns the jobs in the order in which they
 * ended.
 *
 * @example
 * ```ts
 * const jobs = await recording(() => resize.with({ delay: 3600 }).enqueue({ photoId: 42 }));
 * const [run] = await drain(jobs);
 * assert.equal(run?.state, "succeeded");
 * assert.equal(run?.at, 3600);
 * ```
 */
export async function drain(jobs: Recorded, options: RunOptions = {}): Promise<Run[]> {
  check(OPTIONS, options);
  const { tasks = [], raises = true } = options;
  const store = stores.get(jobs);
  if (store === undefined) throw new TypeError("drain takes the list that recording returned");
  return new TestRunner(store, tasks, raises).drain();
}
