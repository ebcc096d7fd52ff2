/** Batches in the test kit. */

import type { ReadyBatch } from "../pusher/backend.js";
import type { BatchRequest, BatchView, JobRequest } from "../wire/protocol.js";
import type { Run } from "./run.js";

type Callback = NonNullable<BatchRequest["on_success"]>;
type Start = (name: string, argument: unknown, options: Partial<JobRequest>) => void;

interface Kept {
  readonly request: ReadyBatch;
  readonly members: Run[];
  readonly started: Set<Callback>;
  isSealed: boolean;
}

/** The batches of a test. They start their callbacks. */
export class Batches {
  readonly #kept = new Map<string, Kept>();

  constructor(private readonly start: Start) {}

  create(request: ReadyBatch): void {
    this.#kept.set(request.id, { request, members: [], started: new Set(), isSealed: false });
  }

  members(batchId: string): readonly Run[] {
    return this.#kept.get(batchId)?.members ?? [];
  }

  join(run: Run): void {
    if (typeof run.request.batch === "string") this.#kept.get(run.request.batch)?.members.push(run);
  }

  seal(batchId: string): void {
    const kept = this.#kept.get(batchId);
    if (kept === undefined) return;
    kept.isSealed = true;
    this.#follow(kept);
  }

  /** Records the end of a job. */
  note(run: Run): void {
    const kept = typeof run.request.batch === "string" ? this.#kept.get(run.request.batch) : undefined;
    if (kept !== undefined) this.#follow(kept);
  }

  view(batchId: string): BatchView {
    const kept = this.#kept.get(batchId);
    const members = kept?.members ?? [];
    const count = (state: Run["state"]) => members.filter((run) => run.state === state).length;
    const unfinished = members.filter((run) => !run.isOver).length;
    const counts = {
      total: members.length, unfinished, deleted: 0,
      scheduled: count("scheduled"), ready: count("ready"), retrying: count("retrying"), running: count("running"),
      succeeded: count("succeeded"), discarded: count("discarded"), failed: count("failed"), canceled: count("canceled"), skipped: count("skipped"),
    };
    const isSealed = kept?.isSealed ?? false;
    const view: Partial<BatchView> = { id: batchId, counts, state: !isSealed ? "open" : unfinished > 0 ? "sealed" : "complete" };
    return view as BatchView;
  }

  #follow(kept: Kept): void {
    const { request, members, isSealed } = kept;
    const hasFailed = members.some((run) => run.state === "failed");
    if (hasFailed) this.#call(kept, request.on_failure);
    if (!isSealed || members.some((run) => !run.isOver)) return;
    this.#call(kept, request.on_complete);
    if (members.every((run) => run.state === "succeeded" || run.state === "discarded")) this.#call(kept, request.on_success);
  }

  #call(kept: Kept, callback: Callback | null | undefined): void {
    if (callback === null || callback === undefined || kept.started.has(callback)) return;
    kept.started.add(callback);
    const { name, argument, ...options } = callback;
    this.start(name, argument, options);
  }
}
