/** Replaces a master in a test. Its clock moves only when the test kit moves it. */

import { NotUniqueError, RefusedError } from "../errors/calls.js";
import { NotFinished } from "../errors/results.js";
import type { Backend, Enqueued, ReadyBatch } from "../pusher/backend.js";
import { Job } from "../tasks/job.js";
import { newId } from "../wire/ids.js";
import type { BatchView, JobView, ResultView } from "../wire/protocol.js";
import { Batches } from "./batches.js";
import { RecordedRuns, Run } from "./run.js";

/** Keeps the jobs of a test. */
export class TestStore implements Backend {
  readonly runs = new RecordedRuns();
  /** Virtual seconds since the beginning. */
  nowS = 0;
  /** Called after each push. Undefined: no jobs run. */
  onEnqueued: (() => Promise<void>) | undefined;
  readonly #byId = new Map<string, Run>();
  readonly #taken = new Set<string>();
  readonly #startedMs = Date.now();
  readonly #batches = new Batches((name, argument, options) => {
    this.#add(new Job({ ...options, name, argument, id: newId() }));
  });

  /** The wall clock of the test. */
  get wallMs(): number {
    return this.#startedMs + this.nowS * 1000;
  }

  get(jobId: string): Run | undefined {
    return this.#byId.get(jobId);
  }

  async enqueueJob(job: Job): Promise<Enqueued> {
    const enqueued = this.#enqueue(job);
    await this.onEnqueued?.();
    return enqueued;
  }

  async enqueueJobs(jobs: readonly Job[]): Promise<Enqueued[]> {
    const enqueued = jobs.map((job) => this.#enqueue(job));
    await this.onEnqueued?.();
    return enqueued;
  }

  async fetchResult(jobId: string): Promise<ResultView | null> {
    const run = this.#known(jobId);
    if (!run.isOver) throw new NotFinished(jobId, run.state);
    const { outcome } = run;
    if (run.request.keep_result !== true || outcome === undefined || this.#taken.has(jobId)) return null;
    if (outcome.type !== "success" && outcome.type !== "failure") return null;
    this.#taken.add(jobId);
    const finished_at = new Date(this.wallMs).toISOString();
    if (outcome.type === "success") return { type: "success", finished_at, result: outcome.result };
    const { reason, should_retry, message = "", error = null, code } = outcome;
    return { type: "failure", finished_at, reason, should_retry, message, error, ...(code === undefined ? {} : { code }) };
  }

  async status(jobId: string): Promise<JobView> {
    const run = this.#known(jobId);
    const { outcome, request } = run;
    const failed = outcome?.type === "failure" ? outcome : undefined;
    const progress = run.progress === undefined ? null : { fraction: run.progress.fraction ?? null, message: run.progress.message ?? "", at: new Date(this.wallMs).toISOString() };
    // The fields of a view that programs read.
    const view: Partial<JobView> = {
      id: run.id,
      name: run.name,
      state: run.state,
      attempt: run.attempt,
      failures: run.failures,
      keep_result: request.keep_result ?? false,
      cause: run.state === "skipped" ? (request.after ? "dependency" : "expired") : failed === undefined ? null : failed.reason === "other" ? "error" : failed.reason,
      argument: run.args,
      attempts: outcome === undefined ? [] : [{
        attempt: run.attempt, worker_id: "test", started_at: "", finished_at: "", outcome: outcome.type,
        message: "message" in outcome ? (outcome.message ?? "") : null, code: failed?.code ?? null, error_type: null, error: failed?.error ?? null,
      }],
      progress,
    };
    return view as JobView;
  }

  async cancel(jobId: string): Promise<JobView> {
    const run = this.#known(jobId);
    if (run.isOver) throw new RefusedError(409, { code: `job_${run.state}`, detail: `the job is ${run.state}` });
    this.end(run, "canceled");
    return this.status(jobId);
  }

  async createBatch(batch: ReadyBatch): Promise<void> {
    this.#batches.create(batch);
  }

  async sealBatch(batchId: string): Promise<void> {
    this.#batches.seal(batchId);
    await this.onEnqueued?.();
  }

  async cancelBatch(batchId: string): Promise<void> {
    for (const run of this.#batches.members(batchId)) if (!run.isOver) this.end(run, "canceled");
  }

  async retryBatch(batchId: string): Promise<void> {
    for (const run of this.#batches.members(batchId)) if (run.state === "failed") run.state = "ready";
    await this.onEnqueued?.();
  }

  async batchStatus(batchId: string): Promise<BatchView> {
    return this.#batches.view(batchId);
  }

  /** Returns this store, which accepts the jobs of all namespaces. `Run.namespace` distinguishes them. */
  inNamespace(): this {
    return this;
  }

  /** Ends a job, and starts or skips the jobs that depend on it. */
  end(run: Run, state: "succeeded" | "discarded" | "failed" | "canceled" | "skipped"): void {
    run.state = state;
    this.#batches.note(run);
    for (const other of this.runs) if (other.state === "awaiting_jobs") this.#release(other);
  }

  #enqueue(job: Job): Enqueued {
    const known = this.#byId.get(job.id) ?? this.#keyed(job);
    if (known !== undefined) return { id: known.id, isDuplicate: known.id !== job.id, isReplaced: false };
    const run = this.#add(job);
    this.#batches.join(run);
    this.#release(run);
    return { id: run.id, isDuplicate: false, isReplaced: false };
  }

  #add(job: Job): Run {
    const run = new Run(job, this.nowS, this.wallMs);
    this.runs.push(run);
    this.#byId.set(run.id, run);
    return run;
  }

  /** Returns the job that holds the key of another job. */
  #keyed({ name, request }: Job): Run | undefined {
    const { unique, key } = request;
    if (typeof key === "string") return this.runs.find((run) => run.name === name && run.request.key === key);
    if (unique === undefined || unique === null) return undefined;
    const keyOf = ({ argument, unique: own }: Job["request"]) => own?.key ?? JSON.stringify(argument);
    const holder = this.runs.find(
      (run) =>
        run.name === name && !run.isOver && run.request.unique !== undefined && keyOf(run.request) === keyOf(request) &&
        !(run.request.unique?.scope === "until_start" && run.attempt > 0),
    );
    if (holder !== undefined && (unique.on_conflict ?? "reject") === "reject") {
      throw new NotUniqueError(409, { code: "not_unique", detail: "another job holds the uniqueness key", job_id: holder.id });
    }
    return holder;
  }

  /** Lets a job run, or skips it, when the jobs for which it waits are over. */
  #release(run: Run): void {
    const { after } = run.request;
    if (run.state !== "awaiting_jobs" || after === undefined || after === null) return;
    const before = after.jobs.map((id) => this.#byId.get(id));
    const when = after.when ?? "succeeded";
    if (when === "succeeded" && before.some((one) => one?.isOver === true && one.state !== "succeeded")) this.end(run, "skipped");
    else if (before.every((one) => one?.isOver ?? true)) run.state = "ready";
  }

  #known(jobId: string): Run {
    const run = this.#byId.get(jobId);
    if (run === undefined) throw new RefusedError(404, { code: "unknown_job", detail: `there is no job ${jobId}` });
    return run;
  }
}
