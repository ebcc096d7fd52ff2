/** Runs the jobs of a test in the order in which a master would. */

import { withBackend } from "../pusher/default.js";
import type { AnyTask, Handler } from "../tasks/task.js";
import type { JobRequest } from "../wire/protocol.js";
import { returned, thrown, type Outcome } from "../worker/outcomes.js";
import type { Run } from "./run.js";
import type { TestStore } from "./store.js";
import { TestContext } from "./test-context.js";

const MAX_RETRY = 5;
/** A job that is deferred this often waits for something that never comes. */
const MAX_DEFERRALS = 1_000;

/** Runs the jobs of a store. */
export class TestRunner {
  readonly #tasks: ReadonlyMap<string, AnyTask>;

  constructor(
    private readonly store: TestStore,
    tasks: readonly AnyTask[],
    private readonly raises: boolean,
  ) {
    this.#tasks = new Map(tasks.map((task) => [task.name, task]));
  }

  /** Runs jobs until no job can run any more, and returns the jobs that have ended. The clock skips waits. */
  async drain(): Promise<Run[]> {
    const ended: Run[] = [];
    for (let deferrals = 0; deferrals < MAX_DEFERRALS; ) {
      const run = this.#next();
      if (run === undefined) return ended;
      const { attempt } = run;
      await this.#attempt(run);
      deferrals = run.state === "scheduled" && run.attempt > attempt ? deferrals + 1 : 0;
      if (!run.isOver) continue;
      ended.push(run);
      if (run.state === "failed" && this.raises) throw run.error;
    }
    throw new RangeError(`jobs were deferred ${MAX_DEFERRALS} times in a row`);
  }

  /**
   * Returns the next job: the due job with the lowest priority number, or the oldest of these. If no job is due, the
   * clock moves to the time of the first job.
   */
  #next(): Run | undefined {
    const able = this.store.runs.filter(({ state }) => state === "ready" || state === "scheduled" || state === "retrying");
    if (able.length === 0) return undefined;
    this.store.nowS = Math.max(this.store.nowS, Math.min(...able.map(({ at }) => at)));
    const due = able.filter(({ at }) => at <= this.store.nowS);
    const first = Math.min(...due.map(({ request }) => request.priority ?? 0));
    return due.find(({ request }) => (request.priority ?? 0) === first);
  }

  async #attempt(run: Run): Promise<void> {
    if (this.store.nowS > run.expiresAt) {
      this.store.end(run, "skipped");
      return;
    }
    const task = (run.job.task as AnyTask | undefined) ?? this.#tasks.get(run.name);
    const handler = (this.#tasks.get(run.name)?.handler ?? task?.handler) as Handler<unknown, unknown> | undefined;
    if (handler === undefined) throw new TypeError(`no handler for jobs named ${run.name}: give the option tasks`);
    run.state = "running";
    run.attempt += 1;
    run.at = this.store.nowS;
    run.used = {};
    run.observed = [];
    const context = new TestContext(run, this.store);
    run.callbacks = [];
    let outcome: Outcome;
    try {
      const value = await withBackend(this.store, async () => handler(run.args, context));
      outcome = returned(value);
      run.result = value;
      if (outcome.type !== "success") run.error = new TypeError(outcome.type === "failure" ? outcome.message : "");
    } catch (error) {
      run.error = error;
      outcome = thrown(error, task?.retryCodes);
    }
    run.outcome = outcome;
    // A handler may have canceled its own job.
    if ((run.state as Run["state"]) === "running") this.#settle(run, outcome);
  }

  #settle(run: Run, outcome: Outcome): void {
    switch (outcome.type) {
      case "success":
        this.store.end(run, "succeeded");
        break;
      case "discarded":
        this.store.end(run, "discarded");
        break;
      case "deferred":
        run.state = "scheduled";
        run.at = this.store.nowS + outcome.retry_after;
        break;
      case "challenged":
        run.state = "awaiting_callback";
        break;
      case "failure":
        run.failures += 1;
        if (outcome.should_retry && run.failures <= (run.request.max_retry ?? MAX_RETRY)) {
          run.state = "retrying";
          run.at = this.store.nowS + Math.max(backoffS(run.request, run.failures), outcome.retry_after ?? 0);
        } else this.store.end(run, "failed");
        break;
      case "canceled":
      case "handed_back":
        run.state = "ready";
    }
  }
}

function backoffS({ retry }: JobRequest, failures: number): number {
  const { base_s = 1, factor = 2, max_s = 3600 } = retry ?? {};
  return Math.min(max_s, base_s * factor ** (failures - 1));
}
