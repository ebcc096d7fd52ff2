/** A pusher, which enqueues jobs and reads their outcomes. */

import { check, checkedOptions, type OptionKinds } from "../checks/options.js";
import { suggestMethods } from "../checks/other-queues.js";
import { NotFinished } from "../errors/results.js";
import type { MasterAnswer } from "../masters/answer.js";
import { MasterClient, type Fetch } from "../masters/client.js";
import { Masters, pauseMs } from "../masters/masters.js";
import { DEFAULT_NAMESPACE, inNamespace, movedTo } from "../masters/namespaces.js";
import { setTimeout as sleep } from "node:timers/promises";
import { JobHandle } from "../tasks/handle.js";
import { checkedJob, jobOf, type Job, type TaskLike } from "../tasks/job.js";
import { encode } from "../wire/msgpack.js";
import type { BatchView, BulkAnswer, EnqueueAnswer, JobState, JobView, ResultView } from "../wire/protocol.js";
import type { Backend, Enqueued, ReadyBatch, WaitOptions } from "./backend.js";
import { RepeatedCalls, afterAccepted, type Call } from "./calls.js";
import { chunksOf, mayBeAnother } from "./chunks.js";
import { environment } from "./environment.js";
import { ENQUEUE, MANY, type JobOptions } from "./options.js";

const MAX_LONG_POLL_MS = 60_000;

/**
 * The settings of a pusher.
 *
 * @example
 * ```ts
 * configure({ master: ["http://10.0.0.1:8080", "http://10.0.0.2:8080"], maxWait: 30 });
 * ```
 */
export interface PusherOptions {
  /** Address of the master, or a list of addresses. Default: `JQMASTER_URL`, then `http://127.0.0.1:8080`. */
  readonly master?: string | readonly string[];
  /**
   * Namespace, which becomes a part of each address without one: `http://jobs.example.org` becomes
   * `http://jobs.example.org/ns/shop`. `default` means the namespace of addresses without one. Default:
   * `JQMASTER_NAMESPACE`.
   */
  readonly namespace?: string;
  /** Bearer token with the scope `push`, and `read` for `status`. Default: `JQMASTER_TOKEN`. */
  readonly token?: string;
  /** Timeout of one try in seconds. Default 10. */
  readonly timeout?: number;
  /** Seconds for which a call is repeated before it throws `UnavailableError`. Default 10. */
  readonly maxWait?: number;
  /** Durability that a job must have before it is accepted. Default: the master's setting. */
  readonly durability?: "besteffort" | "fsync" | "fsync+quorum";
  /**
   * Makes the HTTP calls. Default: the global `fetch`. For mutual TLS, give a function that uses a client certificate.
   */
  readonly fetch?: Fetch;
}

/** The kinds of the settings of a pusher. */
export const PUSHER_KINDS: OptionKinds<PusherOptions> = {
  master: "a text or a list of texts",
  namespace: "a text",
  token: "a text",
  timeout: "a number",
  maxWait: "a number",
  durability: "a text",
  fetch: "a function",
};

const OPTIONS = checkedOptions("Pusher", PUSHER_KINDS, '{ master: "http://127.0.0.1:8080" }');

/**
 * Enqueues jobs, and reads their outcomes.
 *
 * If a call gets no answer, 429 or 5xx, the pusher repeats it at the next master, after a random pause plus the pause
 * that the master asks for. Enqueueing is safe to repeat, because the pusher chooses the ID of each job. Tasks have
 * their own pusher (see `configure`), so most programs need no other.
 *
 * All calls throw `RefusedError` if the master refuses, `UnavailableError` after `maxWait`, and
 * `AnswerMismatchError` if the answer is about another job.
 *
 * @example
 * ```ts
 * const pusher = new Pusher({ master: "http://127.0.0.1:8080" });
 * const handle = await pusher.enqueue("photo.resize", { photoId: 42 }, { keepResult: true });
 * console.log(await handle.result({ wait: 10 }));
 * ```
 */
export class Pusher implements Backend {
  readonly #calls: RepeatedCalls;
  readonly #masters: Masters;
  readonly #options: PusherOptions;
  readonly #others = new Map<string, Pusher>();

  constructor(options: PusherOptions = {}) {
    check(OPTIONS, options);
    const { url, token, namespace } = environment();
    this.#options = options;
    this.#masters = new Masters(inNamespace(options.master ?? url, options.namespace ?? namespace));
    const client = new MasterClient(this.#masters, {
      token: options.token ?? token,
      timeoutMs: (options.timeout ?? 10) * 1000,
      durability: options.durability,
      fetch: options.fetch,
    });
    this.#calls = new RepeatedCalls(client, (options.maxWait ?? 10) * 1000);
  }

  /**
   * Enqueues a job, and returns its handle once a master has stored it.
   *
   * @param task A task, with its options, or the name of a job.
   * @param args The argument: any value that MessagePack can encode.
   * @param options Options of this job. They take precedence over the options of the task.
   * @throws TypeError with the path of a value that cannot be sent.
   *
   * @example
   * ```ts
   * await pusher.enqueue(resize, { photoId: 42 }, { delay: 60 });
   * await pusher.enqueue("mail.send", { to: 7 });
   * ```
   */
  async enqueue<Args, Result>(task: TaskLike<Args, Result>, args: Args, options?: JobOptions): Promise<JobHandle<Result>>;
  async enqueue(task: string, args?: unknown, options?: JobOptions): Promise<JobHandle>;
  async enqueue(task: string | TaskLike<unknown, unknown>, args: unknown = null, options: JobOptions = {}): Promise<JobHandle> {
    check(ENQUEUE, options);
    const job = jobOf(task, args, options);
    const namespace = typeof task === "string" ? undefined : task.namespace;
    const to = namespace === undefined ? this : this.inNamespace(namespace);
    return new JobHandle(job.name, await to.enqueueJob(job), to);
  }

  /**
   * Returns the pusher of another namespace at the same masters.
   *
   * @throws TypeError if the name is invalid.
   *
   * @example
   * ```ts
   * await pusher.inNamespace("mail").enqueue("mail.send", { to: 7 });
   * ```
   */
  inNamespace(namespace: string): Pusher {
    let other = this.#others.get(namespace);
    if (other === undefined) {
      other = new Pusher({ ...this.#options, master: movedTo(this.#masters.addresses, namespace), namespace: DEFAULT_NAMESPACE });
      this.#others.set(namespace, other);
    }
    return other;
  }

  /**
   * Enqueues any number of jobs in calls of up to 1,000, and returns their handles in order. If one job is refused, its
   * whole call is refused. The error lists the jobs that were accepted before in `acceptedIds`.
   *
   * @param inOneCall Send all jobs in one call, up to 10,000. The master accepts all of them or none.
   *
   * @example
   * ```ts
   * await pusher.enqueueMany([resize.job({ photoId: 42 }), publish.job({ album: 7 })]);
   * ```
   */
  async enqueueMany(jobs: Iterable<Job>, options: { readonly inOneCall?: boolean } = {}): Promise<JobHandle[]> {
    check(MANY, options);
    const { inOneCall = false } = options;
    const all = Array.from(jobs, checkedJob);
    const enqueued = await this.enqueueJobs(all, inOneCall);
    return all.map((job, index) => new JobHandle(job.name, enqueued[index] ?? job.id, this));
  }

  /**
   * Returns the handle of a job that was enqueued before, by its ID.
   *
   * @example
   * ```ts
   * const { state } = await pusher.handle(id).refresh();
   * ```
   */
  handle(jobId: string): JobHandle {
    return new JobHandle("", jobId, this);
  }

  /** @internal */
  async enqueueJob({ request }: Job): Promise<Enqueued> {
    const answer = await this.#calls.call({
      method: "POST",
      path: "/api/jobs",
      body: encode(request),
      jobIds: [request.id],
      keyed: new Set(mayBeAnother(request) ? [0] : []),
    });
    const { id, duplicate = false, replaced = false } = answer.body as unknown as EnqueueAnswer;
    return { id, isDuplicate: duplicate, isReplaced: replaced };
  }

  /** @internal */
  async enqueueJobs(jobs: readonly Job[], inOneCall = false): Promise<Enqueued[]> {
    const enqueued: Enqueued[] = [];
    for (const { ids, keyed, body } of chunksOf(jobs, inOneCall)) {
      const call: Call = { method: "POST", path: "/api/jobs/bulk", body, jobIds: ids, keyed };
      const answer = await this.#calls.call(call).catch((error: unknown) => {
        throw afterAccepted(error, enqueued.map(({ id }) => id));
      });
      const told = answer.body as unknown as BulkAnswer;
      const [duplicates, replaced] = [new Set(told.duplicates), new Set(told.replaced)];
      told.ids.forEach((id, index) => {
        enqueued.push({ id, isDuplicate: duplicates.has(index), isReplaced: replaced.has(index) });
      });
    }
    return enqueued;
  }

  /** @internal */
  async fetchResult(jobId: string, { wait = Infinity, signal }: WaitOptions): Promise<ResultView | null> {
    const endMs = performance.now() + wait * 1000;
    while (true) {
      // The answer must arrive within the timeout of a call. Otherwise, a long wait would look like a dead master.
      const waitMs = Math.max(0, Math.min(endMs - performance.now(), MAX_LONG_POLL_MS, this.#calls.timeoutMs * 0.8));
      const answer = await this.#get(`${pathOf(jobId)}/result?wait=${(waitMs / 1000).toFixed(3)}`, jobId, signal);
      if (answer.status !== 202) return "type" in answer.body ? (answer.body as unknown as ResultView) : null;
      const leftMs = endMs - performance.now();
      if (leftMs <= 0) {
        const { state, last_error: lastError } = answer.body as { state: JobState; last_error?: string | null };
        throw new NotFinished(jobId, state, lastError ?? undefined);
      }
      // A master with too many waiting polls answers at once, and states when to poll again.
      if (answer.retryAfterS !== undefined) await sleep(Math.min(pauseMs(1, answer.retryAfterS), leftMs));
    }
  }

  /** @internal */
  async status(jobId: string): Promise<JobView> {
    return (await this.#get(pathOf(jobId), jobId)).body as unknown as JobView;
  }

  /** @internal */
  async cancel(jobId: string): Promise<JobView> {
    const answer = await this.#calls.call({ method: "POST", path: `${pathOf(jobId)}/cancel`, of: jobId });
    return answer.body as unknown as JobView;
  }

  /** @internal */
  async createBatch(batch: ReadyBatch): Promise<void> {
    await this.#calls.call({ method: "POST", path: "/api/batches", body: encode(batch), of: batch.id });
  }

  /** @internal */
  async sealBatch(batchId: string): Promise<void> {
    await this.#calls.call({ method: "POST", path: `${pathOfBatch(batchId)}/seal`, of: batchId });
  }

  /** @internal */
  async cancelBatch(batchId: string): Promise<void> {
    await this.#calls.call({ method: "POST", path: `${pathOfBatch(batchId)}/cancel`, of: batchId });
  }

  /** @internal */
  async retryBatch(batchId: string): Promise<void> {
    await this.#calls.call({ method: "POST", path: `${pathOfBatch(batchId)}/retry`, of: batchId });
  }

  /** @internal */
  async batchStatus(batchId: string): Promise<BatchView> {
    return (await this.#get(pathOfBatch(batchId), batchId)).body as unknown as BatchView;
  }

  #get(path: string, of: string, signal?: AbortSignal): Promise<MasterAnswer> {
    return this.#calls.call({ method: "GET", path, of, signal });
  }
}

suggestMethods(Pusher, {
  add: "enqueue",
  addBulk: "enqueueMany",
  enqueue_many: "enqueueMany",
  get: "handle(id).result",
  push: "enqueue",
  result: "handle(id).result",
  send: "enqueue",
});

function pathOf(jobId: string): string {
  return `/api/jobs/${encodeURIComponent(jobId)}`;
}

function pathOfBatch(batchId: string): string {
  return `/api/batches/${encodeURIComponent(batchId)}`;
}
