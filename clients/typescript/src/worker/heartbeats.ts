/** Heartbeats renew leases, and bring commands of masters. */

import { encode } from "../wire/msgpack.js";
import type { HeartbeatAnswer, HeartbeatRequest, ReportedClaim } from "../wire/protocol.js";
import type { Claim } from "./claims.js";
import { marginMs, steadyMs } from "./clocks.js";
import { CheckpointNotSaved } from "./context.js";
import type { Membership } from "./membership.js";
import type { Runner } from "./runner.js";
import type { WorkerState } from "./state.js";
import type { WorkerCalls } from "./worker-calls.js";

const MIN_TIMEOUT_MS = 250;
const MIN_PAUSE_MS = 10;
const QUESTION_TIMEOUT_MS = 1_000;
/** How long reports are sent without sequence numbers after an older master refused them. */
const NO_NUMBERS_MS = 60_000;
/** Operators can set the number of questions, and the pause between them. */
const QUESTIONS = { count: 3, pauseS: 0.3 };

/** The part of a heartbeat that is about one claim. */
interface Told {
  readonly claim: Claim;
  readonly progress: Claim["progress"];
  readonly checkpoint: Claim["checkpoint"];
}

/** The heartbeats of a worker. */
export class Heartbeats {
  /** Counts the heartbeats, so that masters do not replace later reports by the reports of a delayed heartbeat. */
  #seq = 0;
  #noNumbersUntilMs = 0;

  constructor(
    private readonly state: WorkerState,
    private readonly calls: WorkerCalls,
    private readonly membership: Membership,
    private readonly runner: Runner,
  ) {}

  /** Sends heartbeats until the worker ends. */
  async run(): Promise<void> {
    const { state } = this;
    while (!state.isOver) {
      await state.registering;
      const beganMs = steadyMs();
      const { id } = state.registered;
      const answer = await this.#beat(false);
      if (answer?.detached === true && !(await this.#mayGoOn(answer))) await this.membership.rejoin(id);
      await state.beat.wait(Math.max(MIN_PAUSE_MS, state.registered.intervalMs - (steadyMs() - beganMs)));
    }
  }

  async #mayGoOn({ continue_questions: count = QUESTIONS.count, continue_pause_s: pauseS = QUESTIONS.pauseS }: HeartbeatAnswer): Promise<boolean> {
    this.state.logger.warn("detached: asking whether it may continue");
    for (let asked = 0; asked < count; asked++) {
      if (asked > 0) await this.state.pause(pauseS * 1000);
      const answer = await this.#beat(true);
      if (answer !== undefined && !answer.detached) return true;
    }
    return false;
  }

  /** Sends a heartbeat. Returns the answer, if there was one. */
  async #beat(asks: boolean): Promise<HeartbeatAnswer | undefined> {
    const { state } = this;
    const { id, leaseMs } = state.registered;
    // Do not await anything between reading the claims and encoding them, so that no offer is judged in between.
    const told: Told[] = state.claims.named.map((claim) => ({ claim, progress: claim.progress, checkpoint: claim.checkpoint }));
    this.#seq += 1;
    const seq = steadyMs() >= this.#noNumbersUntilMs ? this.#seq : undefined;
    const request: HeartbeatRequest = {
      running: told.map((one) => reported(one, seq)),
      free: state.room,
      as_of_ms: state.store.earliestMs(),
      ...(state.share === undefined ? {} : { max_jobs: state.share.offer() }),
      ...(asks ? { asks_to_continue: true } : {}),
    };
    const sent = state.clock.instant();
    const answer = await this.calls.call("POST", `/api/workers/${id}/heartbeat`, {
      body: encode(request),
      timeoutMs: asks ? QUESTION_TIMEOUT_MS : Math.max(MIN_TIMEOUT_MS, leaseMs / 4),
    });
    if (answer.status === 404 && answer.code === "unknown_worker") {
      await this.membership.rejoin(id);
      return undefined;
    }
    if (answer.status === 422 && seq !== undefined && refusesNumbers(answer.body["errors"])) {
      // Masters of release 0.3.0 accept reports, but refuse their sequence numbers. Send the reports again without
      // them.
      this.#noNumbersUntilMs = steadyMs() + NO_NUMBERS_MS;
      return this.#beat(asks);
    }
    if (answer.status !== 200 || id !== state.registered.id) return undefined;
    const fields = answer.body as unknown as HeartbeatAnswer;
    state.store.learn(fields.store_time_ms, sent, fields.fence ?? 0);
    this.#follow(fields);
    this.#renew(told, fields, sent.steadyMs + sent.sleptMs);
    return fields;
  }

  #follow(answer: HeartbeatAnswer): void {
    const { state } = this;
    const member = state.registered;
    state.noteEpoch(answer.epoch);
    member.intervalMs = answer.heartbeat_interval_s === undefined ? member.intervalMs : answer.heartbeat_interval_s * 1000;
    member.leaseMs = answer.lease_s === undefined ? member.leaseMs : answer.lease_s * 1000;
    this.calls.patienceMs = member.leaseMs;
    if (answer.max_jobs !== undefined) state.resize(answer.max_jobs);
    state.drainOrdered = answer.drain;
    for (const { loc, msg } of answer.ignored ?? []) {
      // A master that does not know `seq` handles the reports without it.
      if (loc[2] !== "seq") state.logger.warn(`a heartbeat's field was ignored: ${loc.join(".")}: ${msg}`);
    }
  }

  #renew(told: readonly Told[], answer: HeartbeatAnswer, sentLatestMs: number): void {
    const { claims } = this.state;
    const lost = new Set(answer.lost.map(({ token }) => token));
    const canceled = new Set(answer.cancel.map(({ token }) => token));
    const leaseMs = answer.lease_until_ms - answer.store_time_ms;
    told.forEach(({ claim, progress, checkpoint }, index) => {
      claim.wasNamed = true;
      if (claim.progress === progress) claim.progress = undefined;
      const { token } = claim.job;
      if (lost.has(token)) this.runner.stop(claim, "lost");
      else if (leaseMs > 0) claim.leaseEndMs = sentLatestMs + leaseMs - marginMs(leaseMs);
      if (checkpoint !== undefined && claim.checkpoint?.bytes === checkpoint.bytes) {
        const isIgnored = (answer.ignored ?? []).some(({ loc }) => loc[1] === index && loc[2] === "checkpoint");
        const isSaved = !lost.has(token) && !canceled.has(token) && !isIgnored;
        claim.settleCheckpoint(isSaved ? undefined : new CheckpointNotSaved("the master did not save the checkpoint"));
      }
      if (claim.stopping === "lost" && !claim.isRunning) claims.delete(token);
    });
    for (const token of canceled) {
      const claim = claims.get(token);
      if (claim !== undefined) this.runner.stop(claim, "canceled");
    }
  }
}

function refusesNumbers(errors: unknown): boolean {
  return Array.isArray(errors) && (errors as { loc?: unknown[] }[]).some(({ loc }) => loc?.[2] === "seq");
}

function reported({ claim, progress, checkpoint }: Told, seq: number | undefined): ReportedClaim {
  return {
    ...claim.ref,
    ...(seq === undefined || (progress === undefined && checkpoint === undefined) ? {} : { seq }),
    ...(progress === undefined ? {} : { progress }),
    ...(checkpoint === undefined ? {} : { checkpoint: checkpoint.bytes }),
  };
}
