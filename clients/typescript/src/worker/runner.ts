/** Runs handlers, stops them in time, and reports how they ended. */

import type { AnyTask, Handler } from "../tasks/task.js";
import type { Claim, Stopping } from "./claims.js";
import { JobContext, type Services } from "./job-context.js";
import { returned, thrown, timedOut, undecodable, type Outcome } from "./outcomes.js";
import type { Reporter } from "./reporter.js";
import type { WorkerState } from "./state.js";

/** How often leases and timeouts are checked. */
const WATCH_MS = 20;
/** How long the end of a job waits for its log and its checkpoint. */
const LAST_WORDS_MS = 2_000;

/** Runs the handlers of a worker. */
export class Runner {
  #timer: NodeJS.Timeout | undefined;
  #watchedMs = performance.now();

  constructor(
    private readonly state: WorkerState,
    private readonly reporter: Reporter,
    private readonly services: Services,
  ) {}

  start(): void {
    this.#watchedMs = performance.now();
    this.#timer = setInterval(() => {
      this.#watch();
    }, WATCH_MS);
  }

  end(): void {
    clearInterval(this.#timer);
  }

  /** Starts a job, without waiting for its end. */
  begin(claim: Claim, task: AnyTask): void {
    void this.#run(claim, task);
  }

  /** Reports a job that cannot be decoded, instead of running it. */
  refuse(claim: Claim, error: unknown): void {
    claim.isRunning = false;
    this.reporter.report(claim, undecodable(error));
    this.state.released();
  }

  /** Stops a job. */
  stop(claim: Claim, why: Stopping): void {
    if (!claim.stop(why)) return;
    // Report at once: a handler that ignores its signal keeps its slot until it ends.
    if (why === "timeout") this.reporter.report(claim, timedOut(claim.job.timeout));
    if (why === "lost") this.state.logger.warn(`job ${claim.job.job_id} no longer belongs to this worker: it is stopped and not reported`);
  }

  async #run(claim: Claim, task: AnyTask): Promise<void> {
    const context = new JobContext(claim, this.state.clock, this.services);
    let outcome: Outcome;
    try {
      // Begin a tick later, so that the answer to the offer does not wait for the synchronous part of the handler.
      await Promise.resolve();
      claim.begunMs = this.state.clock.nowMs();
      outcome = returned(await this.services.within(() => (task.handler as Handler<unknown, unknown>)(claim.job.argument, context)));
    } catch (error) {
      outcome = thrown(error, task.retryCodes);
    }
    if (claim.stopping === undefined) await lastWords(context);
    this.#ended(claim, outcome);
  }

  #ended(claim: Claim, outcome: Outcome): void {
    claim.isRunning = false;
    switch (claim.stopping) {
      case undefined:
        this.reporter.report(claim, outcome);
        break;
      case "canceled":
        this.reporter.report(claim, { type: "canceled" });
        break;
      case "handed_back":
        // The handler may have finished at the last moment.
        this.reporter.report(claim, outcome.type === "success" ? outcome : { type: "handed_back" });
        break;
      case "timeout":
        if (!claim.isOwed) this.state.claims.delete(claim.job.token);
        break;
      case "lost":
        if (claim.wasNamed) this.state.claims.delete(claim.job.token);
    }
    this.state.released();
  }

  #watch(): void {
    const { state } = this;
    const lateMs = performance.now() - this.#watchedMs - WATCH_MS;
    this.#watchedMs = performance.now();
    const leaseMs = state.member?.leaseMs ?? Infinity;
    if (lateMs > leaseMs / 4) {
      const names = [...new Set(state.claims.running.map(({ job }) => job.name))].join(", ");
      state.logger.warn(
        `the event loop was blocked for ${(lateMs / 1000).toFixed(1)} s (running: ${names}): heartbeats are late, and leases of ` +
          `${leaseMs / 1000} s may end; move computations to worker threads`,
      );
    }
    const nowMs = state.clock.nowMs();
    for (const claim of state.claims.running) {
      if (nowMs >= claim.leaseEndMs) this.stop(claim, "lost");
      else if (nowMs >= claim.deadlineMs) this.stop(claim, "timeout");
    }
  }
}

/** Waits until a master has the log and the checkpoint, because masters do not accept them after the end of the job. */
async function lastWords(context: JobContext): Promise<void> {
  const told = context.flush();
  if (told === undefined) return;
  let timer: NodeJS.Timeout | undefined;
  const patience = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, LAST_WORDS_MS);
  });
  await Promise.race([told, patience]);
  clearTimeout(timer);
}
