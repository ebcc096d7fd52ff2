/** Reports the ends of jobs, until a master has confirmed them. */

import { pauseMs } from "../masters/masters.js";
import { decode, encode, encodeList } from "../wire/msgpack.js";
import type { ResultsAnswer } from "../wire/protocol.js";
import { fieldsOf } from "../wire/raw.js";
import type { AnsweredJobs } from "./answered-jobs.js";
import { Claim } from "./claims.js";
import type { Membership } from "./membership.js";
import { refusedByMaster, type Outcome } from "./outcomes.js";
import type { WorkerState } from "./state.js";
import { isTransient, type WorkerCalls } from "./worker-calls.js";

const MAX_RESULTS = 500;
const MAX_BYTES = 8 * 1024 * 1024;
const IDLE_MS = 200;
/**
 * Some services, such as models, count a call when it arrives, and answer much later. So a call counts from its answer,
 * but at the latest this long after the start of the handler.
 */
const COUNTED_WITHIN_MS = 2000;

interface Report {
  readonly claim: Claim;
  readonly outcome: Outcome;
  readonly bytes: Uint8Array;
  /** Whether this report replaces a report that a master refused. */
  readonly isReplacement: boolean;
}

/** The results that no master has confirmed yet. */
export class Reporter {
  readonly #outbox = new Map<string, Report>();
  /** Takes the jobs that come with answers. Undefined: answers must not carry jobs. */
  nextJobs: AnsweredJobs | undefined;

  constructor(
    private readonly state: WorkerState,
    private readonly calls: WorkerCalls,
    private readonly membership: Membership,
  ) {}

  /** Whether every report was confirmed. */
  get isEmpty(): boolean {
    return this.#outbox.size === 0;
  }

  report(claim: Claim, outcome: Outcome, isReplacement = false): void {
    // An attempt that opened a challenge continues, so its estimate stays until it ends.
    const used = outcome.type === "challenged" ? {} : this.#usedBy(claim);
    const bytes = encode({ ...claim.ref, finished_at: new Date().toISOString(), ...outcome, ...used });
    this.#outbox.set(claim.job.token, { claim, outcome, bytes, isReplacement });
    this.state.news.ring();
  }

  /** Sends reports until the worker ends. Jobs that end during a call are reported with the next call. */
  async run(): Promise<void> {
    let [tries, isAlone] = [0, false];
    while (!this.state.isOver) {
      await this.state.registering;
      const batch = this.#next(isAlone);
      if (batch.length === 0) {
        await this.state.news.wait(IDLE_MS);
        continue;
      }
      const { id } = this.state.registered;
      const body = encodeList("results", batch.map(({ bytes }) => bytes));
      const answer = await this.calls.call("POST", `/api/workers/${id}/results`, {
        body,
        // One job that cannot be decoded must not make the rest of the answer unreadable.
        isRaw: true,
        ...(this.nextJobs === undefined ? {} : { headers: this.nextJobs.headers }),
      });
      if (answer.status === 200) {
        this.#read(id, batch, answer.bytes);
        [tries, isAlone] = [0, false];
      } else if (answer.status === 404 && answer.code === "unknown_worker") {
        await this.membership.rejoin(id);
      } else if (isTransient(answer)) {
        tries += 1;
        await this.state.pause(pauseMs(tries, answer.retryAfterS));
      } else if (batch.length > 1) {
        isAlone = true;
      } else {
        const [report] = batch;
        if (report?.isReplacement === true) await this.state.pause(pauseMs(++tries, undefined));
        else if (report !== undefined) this.#replace(report, answer.detail);
      }
    }
  }

  #read(id: string, batch: readonly Report[], bytes: Uint8Array): void {
    const fields = fieldsOf(bytes) ?? new Map<string, Uint8Array>();
    const list = (name: string) => {
      const encoded = fields.get(name);
      return encoded === undefined ? [] : decode(encoded);
    };
    this.#take(batch, { accepted: list("accepted"), stale: list("stale"), refused: list("refused") } as ResultsAnswer);
    if (!fields.has("jobs")) return;
    for (const job of this.nextJobs?.take(id, fields) ?? []) {
      const claim = new Claim(job, Infinity, Infinity);
      claim.isRunning = false;
      this.report(claim, { type: "handed_back" });
    }
  }

  #next(isAlone: boolean): Report[] {
    const batch: Report[] = [];
    let size = 0;
    for (const report of this.#outbox.values()) {
      size += report.bytes.length;
      if (batch.length > 0 && (isAlone || batch.length === MAX_RESULTS || size > MAX_BYTES)) break;
      batch.push(report);
    }
    return batch;
  }

  #take(batch: readonly Report[], { accepted, stale, refused = [] }: ResultsAnswer): void {
    const done = new Set([...accepted, ...stale]);
    for (const { claim } of batch) {
      if (!done.has(claim.job.job_id)) continue;
      this.#outbox.delete(claim.job.token);
      claim.isOwed = false;
      if (!claim.isRunning) this.state.claims.delete(claim.job.token);
    }
    for (const { index, detail } of refused) {
      const report = batch[index];
      if (report !== undefined && !report.isReplacement) this.#replace(report, detail);
    }
    this.state.news.ring();
  }

  /**
   * Returns the fields with the units of the attempt, and with the time by which another system had counted its last
   * call.
   */
  #usedBy({ used, begunMs, answeredMs }: Claim): { used?: Claim["used"]; called_at_ms?: number } {
    const units = used === undefined ? {} : { used };
    if (answeredMs === undefined) return units;
    const calledAtMs = Math.ceil(this.state.store.latestAtMs(Math.min(answeredMs, begunMs + COUNTED_WITHIN_MS)));
    return Number.isFinite(calledAtMs) ? { ...units, called_at_ms: calledAtMs } : units;
  }

  #replace({ claim, outcome }: Report, detail: string): void {
    if (claim.answeredMs !== undefined || claim.used !== undefined) {
      // A master that is older than this package does not know the field. Omit the newest field first.
      if (claim.answeredMs === undefined) claim.used = undefined;
      claim.answeredMs = undefined;
      this.report(claim, outcome);
      return;
    }
    this.state.logger.error(`the result of job ${claim.job.job_id} was refused: ${detail}`);
    this.report(claim, refusedByMaster(detail), true);
  }
}
