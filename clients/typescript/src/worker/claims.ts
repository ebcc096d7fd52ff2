/** The claims of a worker: jobs that it holds, and jobs with a result that it still has to report. */

import type { Dispatch, ProgressRequest } from "../wire/protocol.js";
import { CheckpointNotSaved } from "./context.js";

/** Reason why a job is to stop. */
export type Stopping = "canceled" | "timeout" | "handed_back" | "lost";

/** Maximum number of results that a worker may have to report. */
const MAX_CLAIMS = 1000;

const REASONS: Readonly<Record<Stopping, string>> = {
  canceled: "the job was canceled",
  timeout: "the time of the job is over",
  handed_back: "the worker ends",
  lost: "the job is no longer this worker's",
};

/** A checkpoint that is being sent. */
export interface PendingCheckpoint {
  readonly bytes: Uint8Array;
  readonly settle: readonly ((error?: CheckpointNotSaved) => void)[];
}

/** One claim of a job. */
export class Claim {
  readonly abort = new AbortController();
  stopping: Stopping | undefined;
  /** Whether the job occupies a slot. */
  isRunning = true;
  /** Whether heartbeats name it. */
  isOwed = true;
  /** Whether an answered heartbeat has named it. */
  wasNamed = false;
  /** The reports that no heartbeat has sent yet. */
  progress: ProgressRequest | undefined;
  checkpoint: PendingCheckpoint | undefined;
  /** The units that the attempt has used, for its report. */
  used: Readonly<Record<string, number>> | undefined;
  /** When the handler began, by the latest clock. */
  begunMs = 0;
  /** When another system answered the handler's last call, by the latest clock. */
  answeredMs: number | undefined;

  constructor(
    readonly job: Dispatch,
    /** When the job times out, by the latest clock. */
    readonly deadlineMs: number,
    /** When the job must have stopped, if no heartbeat renews the lease before. */
    public leaseEndMs: number,
  ) {}

  get ref(): { job_id: string; token: string } {
    return { job_id: this.job.job_id, token: this.job.token };
  }

  /**
   * Whether heartbeats name the claim. If a job that had begun was stopped before an answered heartbeat named its
   * claim, the claim is named once more.
   */
  get isNamed(): boolean {
    return this.isOwed || (this.stopping === "lost" && !this.wasNamed);
  }

  /** Tells the handler to stop. Returns false if it was already told. */
  stop(why: Stopping): boolean {
    if (!this.isRunning || this.stopping === "lost" || (this.stopping !== undefined && why !== "lost")) return false;
    this.stopping = why;
    this.isOwed = why !== "lost";
    if (why === "lost") this.settleCheckpoint(new CheckpointNotSaved(`the checkpoint was not saved: ${REASONS.lost}`));
    this.abort.abort(new DOMException(REASONS[why], why === "timeout" ? "TimeoutError" : "AbortError"));
    return true;
  }

  /** Returns when the checkpoint, or a later one, is saved. */
  save(bytes: Uint8Array): Promise<void> {
    return new Promise((resolve, reject) => {
      const settle = (error?: CheckpointNotSaved) => {
        if (error === undefined) resolve();
        else reject(error);
      };
      if (this.stopping === "lost") settle(new CheckpointNotSaved(`the checkpoint was not saved: ${REASONS.lost}`));
      else this.checkpoint = { bytes, settle: [...(this.checkpoint?.settle ?? []), settle] };
    });
  }

  /** Ends the wait for the checkpoint that is being sent. */
  settleCheckpoint(error?: CheckpointNotSaved): void {
    const settled = this.checkpoint;
    this.checkpoint = undefined;
    for (const settle of settled?.settle ?? []) settle(error);
  }
}

/** All claims, by token. */
export class Claims {
  readonly #byToken = new Map<string, Claim>();

  add(claim: Claim): void {
    this.#byToken.set(claim.job.token, claim);
  }

  get(token: string): Claim | undefined {
    return this.#byToken.get(token);
  }

  delete(token: string): void {
    this.#byToken.delete(token);
  }

  /** Claims that occupy a slot. */
  get running(): Claim[] {
    return [...this.#byToken.values()].filter((claim) => claim.isRunning);
  }

  /** Claims that heartbeats name. */
  get named(): Claim[] {
    return [...this.#byToken.values()].filter((claim) => claim.isNamed).slice(0, MAX_CLAIMS);
  }

  get all(): Claim[] {
    return [...this.#byToken.values()];
  }

  /** Returns how many further jobs the worker can hold. */
  room(maxJobs: number): number {
    return Math.max(0, Math.min(maxJobs - this.running.length, MAX_CLAIMS - this.#byToken.size));
  }
}
