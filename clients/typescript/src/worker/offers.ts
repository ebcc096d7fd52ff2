/** Offers: decides which jobs a worker accepts or refuses, and why. */

import type { AnyTask } from "../tasks/task.js";
import { decode } from "../wire/msgpack.js";
import type { Dispatch, PushAnswer, Rejected } from "../wire/protocol.js";
import { fieldsOf, itemsOf } from "../wire/raw.js";
import { Claim } from "./claims.js";
import { marginMs } from "./clocks.js";
import type { Runner } from "./runner.js";
import type { WorkerState } from "./state.js";

type Verdict = "accepted" | Rejected["reason"];

/** How long a token is remembered beyond two leases. */
const MEMORY_MS = 10_000;
const PHASES: readonly string[] = ["run", "callback"];

/** A job of an offer, and the fault of its argument. */
interface Offered {
  readonly job: Dispatch;
  readonly fault: unknown;
}

/** The outcomes of the jobs of an offer. */
export interface Judged {
  readonly accepted: readonly Dispatch[];
  readonly rejected: readonly { readonly job: Dispatch; readonly reason: Rejected["reason"] }[];
}

/** Returns the answer to a push. */
export function pushAnswer({ accepted, rejected }: Judged): PushAnswer {
  return {
    accepted: accepted.map(({ job_id }) => job_id),
    rejected: rejected.map(({ job: { job_id }, reason }) => ({ job_id, reason, retry_after: null })),
  };
}

/** Judges offers, and starts the accepted jobs. */
export class Offers {
  readonly #seen = new Map<string, { verdict: Verdict; atMs: number }>();

  constructor(
    private readonly state: WorkerState,
    private readonly runner: Runner,
  ) {}

  /**
   * Judges the jobs of an offer, and starts the accepted ones. Undefined: the offer is not valid, and no job was
   * started.
   *
   * @param epoch The epoch of the offer.
   * @param bytes The list of jobs, still encoded, so that a job that cannot be decoded affects no other job.
   */
  judge(epoch: unknown, bytes: Uint8Array | undefined): Judged | undefined {
    const offered = bytes === undefined ? undefined : itemsOf(bytes)?.map(offeredIn);
    if (!isInteger(epoch) || !offered?.every((one) => one !== undefined)) return undefined;
    const isStale = epoch < this.state.epoch;
    this.state.noteEpoch(epoch);
    this.#forget();
    const [accepted, rejected]: [Dispatch[], { job: Dispatch; reason: Rejected["reason"] }[]] = [[], []];
    for (const one of offered) {
      const { token } = one.job;
      let verdict = this.#seen.get(token)?.verdict;
      if (verdict === undefined) {
        verdict = this.#verdict(one, isStale);
        this.#seen.set(token, { verdict, atMs: this.state.clock.nowMs() });
      }
      if (verdict === "accepted") accepted.push(one.job);
      else rejected.push({ job: one.job, reason: verdict });
    }
    // Reserve the next free slots for this namespace.
    this.state.share?.want(rejected.filter(({ reason }) => reason === "busy").length);
    return { accepted, rejected };
  }

  #verdict({ job, fault }: Offered, isStale: boolean): Verdict {
    const { state } = this;
    if (isStale) return "stale_epoch";
    const task: AnyTask | undefined = state.tasks.get(job.name);
    if (task === undefined || !PHASES.includes(job.phase)) return "unknown_name";
    if (state.isDraining) return "draining";
    const { leaseMs } = state.registered;
    // After a suspension for longer than a lease, the process cannot know whether the store's clock was set forward. If
    // it was, an offer with an ended lease looks current.
    const latestMs = state.store.latestMs(leaseMs);
    const leftMs = job.lease_until_ms - latestMs - marginMs(leaseMs);
    if (latestMs > job.not_after_ms || leftMs <= 0 || job.fence <= state.store.staleFence) return "too_late";
    if (state.claims.running.some((claim) => claim.job.job_id === job.job_id)) return "duplicate";
    if (state.room === 0) return "busy";
    const nowMs = state.clock.nowMs();
    const claim = new Claim(job, nowMs + job.timeout * 1000, nowMs + leftMs);
    state.claims.add(claim);
    if (fault === undefined) this.runner.begin(claim, task);
    else this.runner.refuse(claim, fault);
    return "accepted";
  }

  #forget(): void {
    const { clock, member } = this.state;
    const beforeMs = clock.nowMs() - 2 * (member?.leaseMs ?? 0) - MEMORY_MS;
    for (const [token, { atMs }] of this.#seen) {
      if (atMs > beforeMs) break;
      this.#seen.delete(token);
    }
  }
}

/** Returns the job. Undefined: a field is missing. */
function offeredIn(bytes: Uint8Array): Offered | undefined {
  const encoded = fieldsOf(bytes);
  const argument = encoded?.get("argument");
  if (encoded === undefined || argument === undefined) return undefined;
  const job: Record<string, unknown> = {};
  let fault: unknown;
  for (const [name, value] of encoded) {
    try {
      job[name] = decode(value);
    } catch (error) {
      if (name !== "argument" && name !== "inputs") return undefined;
      fault = error;
    }
  }
  return isJob(job) ? { job, fault } : undefined;
}

function isJob(job: Record<string, unknown>): job is Record<string, unknown> & Dispatch {
  return (
    ["job_id", "token", "name", "phase"].every((field) => typeof job[field] === "string") &&
    ["attempt", "fence", "not_after_ms", "lease_until_ms"].every((field) => isInteger(job[field])) &&
    typeof job["timeout"] === "number" &&
    job["timeout"] > 0
  );
}

/** Returns whether a value is an integer that a JavaScript number holds exactly. */
export function isInteger(value: unknown): value is number {
  return Number.isSafeInteger(value);
}
