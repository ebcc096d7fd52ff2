/** The context of a run in a test. */

import { check } from "../checks/options.js";
import { DEFAULT_NAMESPACE } from "../masters/namespaces.js";
import { ENQUEUE, type JobOptions } from "../pusher/options.js";
import { withBackend } from "../pusher/default.js";
import { JobHandle } from "../tasks/handle.js";
import { jobOf, type TaskLike } from "../tasks/job.js";
import { decode, encode } from "../wire/msgpack.js";
import type { JobInput } from "../wire/protocol.js";
import { CHALLENGE, type Callback, type Challenge, type ChallengeOptions, type Context, type JobLog, type ObservedRoom } from "../worker/context.js";
import { jobLog } from "../worker/job-context.js";
import { checkedRoom, checkedUnits } from "../worker/units.js";
import type { Run } from "./run.js";
import type { TestStore } from "./store.js";

const TIMEOUT_S = 30;

/** The context of a run in a test. */
export class TestContext implements Context {
  readonly signal = new AbortController().signal;
  readonly log: JobLog;
  readonly callbacks: readonly Callback[];
  readonly lastCheckpoint: unknown;
  readonly fence: number;
  readonly #run: Run;
  readonly #store: TestStore;

  constructor(run: Run, store: TestStore) {
    this.#run = run;
    this.#store = store;
    this.log = jobLog((level, text) => {
      run.log.push({ level, text });
    });
    this.callbacks = run.callbacks;
    this.lastCheckpoint = run.savedCheckpoint === undefined ? undefined : decode(run.savedCheckpoint);
    this.fence = store.wallMs + run.attempt;
  }

  get jobId(): string {
    return this.#run.id;
  }

  get name(): string {
    return this.#run.name;
  }

  get namespace(): string {
    return this.#run.namespace ?? DEFAULT_NAMESPACE;
  }

  get attempt(): number {
    return this.#run.attempt;
  }

  get headers(): Readonly<Record<string, string>> {
    return this.#run.request.headers ?? {};
  }

  get batch(): string | undefined {
    return this.#run.request.batch ?? undefined;
  }

  get inputs(): readonly JobInput[] {
    return (this.#run.request.after?.jobs ?? []).map((id) => {
      const before = this.#store.get(id);
      const isKept = before?.state === "succeeded" && before.request.keep_result === true;
      const result = isKept ? { type: "success", finished_at: "", result: before.result } : null;
      return { job_id: id, state: before?.state ?? null, result, omitted: isKept ? null : "not_kept" };
    });
  }

  remaining = (): number => this.#run.request.timeout ?? TIMEOUT_S;

  progress(fraction: number | null, message = ""): void {
    this.#run.progress = { fraction, message };
  }

  used(units: Readonly<Record<string, number>>): void {
    this.#run.used = { ...this.#run.used, ...checkedUnits(units) };
  }

  observed(constraint: string, room: ObservedRoom): void {
    this.#run.observed.push({ constraint, ...checkedRoom(room) });
  }

  async checkpoint(value: unknown): Promise<void> {
    this.#run.savedCheckpoint = encode(value);
  }

  async openChallenge(options: ChallengeOptions = {}): Promise<Challenge> {
    check(CHALLENGE, options);
    const requestId = `${this.#run.id}-${this.#run.attempt}`;
    const challenge = { requestId, callbackUrl: `http://master.test/callbacks/${requestId}` };
    this.#run.challenges.push(challenge);
    return challenge;
  }

  async enqueue<Args, Result>(task: TaskLike<Args, Result>, args: Args, options?: JobOptions): Promise<JobHandle<Result>>;
  async enqueue(task: string, args?: unknown, options?: JobOptions): Promise<JobHandle>;
  async enqueue(task: string | TaskLike<unknown, unknown>, args: unknown = null, options: JobOptions = {}): Promise<JobHandle> {
    check(ENQUEUE, options);
    const job = jobOf(task, args, options);
    const enqueued = await withBackend(this.#store, () => this.#store.enqueueJob(job));
    return new JobHandle(job.name, enqueued, this.#store);
  }
}
