/** Flows: jobs that wait for one another, enqueued in one call. */

import { checkValue } from "../checks/options.js";
import type { ReadyJob } from "../pusher/backend.js";
import { backend } from "../pusher/default.js";
import type { AfterWhen } from "../wire/protocol.js";
import { JobHandle } from "./handle.js";
import { Job, checkedJob } from "./job.js";

/** A part of a flow: a job, or a flow. */
export type Step<Result = unknown> = Job<Result> | Flow<Result>;

/**
 * Jobs that wait for one another. `chain`, `group` and `chord` make flows, and can be nested. A job finds the results
 * of its predecessors in `ctx.inputs`. The predecessors need `keepResult`.
 *
 * @example
 * ```ts
 * const flow = chain(resize.job({ photoId: 42 }), group(publish.job({ album: 7 }), mail.job({ to: 3 })));
 * const handles = await flow.enqueue();
 * ```
 */
export class Flow<Result = unknown> {
  /** For types alone. @internal */
  declare readonly result: Result;

  /** @internal */
  constructor(
    /** The jobs, each after the jobs for which it waits. */
    readonly jobs: readonly Job[],
    /** The IDs of the jobs for which the next step waits. */
    readonly lasts: readonly string[],
  ) {}

  /**
   * Enqueues all jobs in one call: a master accepts all of them, or none.
   *
   * @throws RangeError for a flow of more than 10,000 jobs.
   *
   * @example
   * ```ts
   * const handles = await chain(resize.job({ photoId: 42 }), publish.job({ album: 7 })).enqueue();
   * await handles.last.result({ wait: 30 });
   * ```
   */
  async enqueue(): Promise<FlowHandles<Result>> {
    const to = backend();
    const enqueued = this.jobs.length === 0 ? [] : await to.enqueueJobs(this.jobs, true);
    const handles = this.jobs.map((job, index) => [job.id, new JobHandle(job.name, enqueued[index] ?? job.id, to)] as const);
    return new FlowHandles<Result>(new Map(handles), this.lasts);
  }
}

/**
 * The handles of the jobs of a flow, in the order in which the jobs were given.
 *
 * @example
 * ```ts
 * const first = resize.job({ photoId: 42 });
 * const handles = await chain(first, publish.job({ album: 7 })).enqueue();
 * console.log(await handles.of(first).result({ wait: 10 }), handles.last.id);
 * ```
 */
export class FlowHandles<Result = unknown> implements Iterable<JobHandle> {
  readonly #handles: ReadonlyMap<string, JobHandle>;
  readonly #lasts: readonly string[];

  /** @internal */
  constructor(handles: ReadonlyMap<string, JobHandle>, lasts: readonly string[]) {
    this.#handles = handles;
    this.#lasts = lasts;
  }

  /** The handle of the job that ends the flow. Throws RangeError if it ends with several jobs, or has no jobs. */
  get last(): JobHandle<Result> {
    const [id = "", ...others] = this.#lasts;
    const handle = this.#handles.get(id);
    if (handle === undefined || others.length > 0) throw new RangeError(`the flow ends with ${this.#lasts.length} jobs`);
    return handle as JobHandle<Result>;
  }

  /**
   * Returns the handle of one of the jobs.
   *
   * @throws RangeError for a job that is not in the flow.
   */
  of<JobResult>(job: Job<JobResult>): JobHandle<JobResult> {
    const handle = this.#handles.get(job.id);
    if (handle === undefined) throw new RangeError(`job ${job.id} is not in the flow`);
    return handle as JobHandle<JobResult>;
  }

  [Symbol.iterator](): Iterator<JobHandle> {
    return this.#handles.values();
  }
}

/**
 * Returns a flow of steps that run one after another. Each step waits until the previous one has succeeded. A step
 * after a group waits for all jobs of the group.
 *
 * @example
 * ```ts
 * const handles = await chain(resize.job({ photoId: 42 }), publish.job({ album: 7 })).enqueue();
 * ```
 */
export function chain<Result>(...steps: [...Step[], Step<Result>]): Flow<Result> {
  const jobs: Job[] = [];
  let lasts: readonly string[] = [];
  for (const step of steps) {
    const flow = flowOf(step);
    if (flow.jobs.length === 0) throw new TypeError("a step of a chain has no jobs");
    jobs.push(...behind(flow, lasts, "succeeded"));
    lasts = flow.lasts;
  }
  return new Flow<Result>(jobs, lasts);
}

/**
 * Returns a flow of steps that do not wait for one another.
 *
 * @example
 * ```ts
 * const handles = await group(resize.job({ photoId: 1 }), resize.job({ photoId: 2 })).enqueue();
 * ```
 */
export function group(...steps: Step[]): Flow {
  const flows = steps.map(flowOf);
  return new Flow(
    flows.flatMap((flow) => flow.jobs),
    flows.flatMap((flow) => flow.lasts),
  );
}

/**
 * Returns a flow of jobs and one final job, which runs when all other jobs have succeeded.
 *
 * @param when With `finished`, the final job runs even if some of the other jobs did not succeed.
 *
 * @example
 * ```ts
 * const sizes = photoIds.map((photoId) => resize.job({ photoId }));
 * const handles = await chord(sizes, publish.job({ album: 7 })).enqueue();
 * ```
 */
export function chord<Result>(header: readonly Step[], callback: Job<Result>, when: AfterWhen = "succeeded"): Flow<Result> {
  checkValue("chord", "the first argument", header, "a list");
  const before = group(...header);
  return new Flow<Result>([...before.jobs, ...behind(flowOf(callback), before.lasts, when)], [callback.id]);
}

function flowOf(step: Step): Flow {
  return step instanceof Flow ? step : new Flow([checkedJob(step)], [step.id]);
}

/** Returns the jobs of a flow. Jobs that wait for no other job of the flow now wait for the jobs `before`. */
function behind(flow: Flow, before: readonly string[], when: AfterWhen): Job[] {
  if (before.length === 0) return [...flow.jobs];
  const own = new Set(flow.jobs.map(({ id }) => id));
  return flow.jobs.map((job) => {
    const known = job.request.after?.jobs ?? [];
    if (known.some((id) => own.has(id))) return job;
    const request: ReadyJob = { ...job.request, after: { jobs: [...new Set([...known, ...before])], when } };
    return new Job(request, job.task);
  });
}
