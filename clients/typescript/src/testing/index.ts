/**
 * Test code that enqueues, and handlers, without a master.
 *
 * @packageDocumentation
 */

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
  /** Throw what the first job threw that fails for good. Default true. */
  readonly raises?: boolean;
}

const stores = new WeakMap<Recorded, TestStore>();

/**
 * Records the jobs that a function enqueues, and all that it calls, in the place of sending them. Handlers do not run;
 * `drain` runs them. Returns the list of jobs.
 *
 * @example
 * ```ts
 * const jobs = await recording(() => signUp("ada"));
 * assert.deepEqual(jobs.only(sendMail).args, { to: "ada" });
 * ```
 */
export async function recording(run: (jobs: Recorded) => unknown): Promise<Recorded> {
  const store = new TestStore();
  stores.set(store.runs, store);
  await withBackend(store, () => run(store.runs));
  return store.runs;
}

/**
 * Runs the jobs that a function enqueues as soon as they are enqueued. Retries follow at once, and delays are not waited
 * for. Returns the list of jobs.
 *
 * @example
 * ```ts
 * await inline(async () => {
 *   const handle = await resize.with({ keepResult: true }).enqueue({ photoId: 42 });
 *   assert.deepEqual(await handle.result({ wait: 0 }), { width: 320 });
 * });
 * ```
 */
export async function inline(run: (jobs: Recorded) => unknown, { tasks = [], raises = true }: RunOptions = {}): Promise<Recorded> {
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
 * Runs recorded jobs, and those that they enqueue, until none is left that can run. A virtual clock passes over delays and
 * backoffs, so a job runs when it would be due among the others. Returns the jobs that have ended, in that order.
 *
 * @example
 * ```ts
 * const jobs = await recording(() => resize.with({ delay: 3600 }).enqueue({ photoId: 42 }));
 * const [run] = await drain(jobs);
 * assert.equal(run?.state, "succeeded");
 * assert.equal(run?.at, 3600);
 * ```
 */
export async function drain(jobs: Recorded, { tasks = [], raises = true }: RunOptions = {}): Promise<Run[]> {
  const store = stores.get(jobs);
  if (store === undefined) throw new TypeError("drain takes the list that recording returned");
  return new TestRunner(store, tasks, raises).drain();
}
