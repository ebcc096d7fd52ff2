/** Sends log lines of jobs to the masters in batches, without ever delaying anything else. */

import { pauseMs } from "../masters/masters.js";
import { encodeList, encode } from "../wire/msgpack.js";
import type { LogLevel, LogsAnswer } from "../wire/protocol.js";
import { Bell } from "./bell.js";
import type { WorkerState } from "./state.js";
import { isTransient, type WorkerCalls } from "./worker-calls.js";

/** How long lines are collected, so that a handler that writes line by line causes few calls. */
const GATHER_MS = 200;
const IDLE_MS = 1_000;
const MAX_LINES_PER_CALL = 1_000;
const MAX_BYTES_PER_CALL = 1024 * 1024;
/** If masters cannot be reached, or a job writes too much, the oldest lines beyond this number are dropped. */
const MAX_HELD_LINES = 10_000;
const MAX_LINE_CHARS = 16_000;
/** The pause if a master stores no logs or refuses the lines. */
const REFUSED_MS = 60_000;

interface Line {
  readonly log: ClaimLog;
  readonly bytes: Uint8Array;
}

/** The log of one claim. */
export class ClaimLog {
  #seq = 0;
  /** Number of lines that no master has confirmed. */
  held = 0;
  /** Whether masters accept no more lines of this claim. */
  isStale = false;

  constructor(
    private readonly sender: LogSender,
    private readonly ref: { readonly job_id: string; readonly token: string },
  ) {}

  get jobId(): string {
    return this.ref.job_id;
  }

  write(level: LogLevel, text: string): void {
    if (this.isStale) return;
    this.#seq += 1;
    const cut = text.length > MAX_LINE_CHARS ? `${text.slice(0, MAX_LINE_CHARS)} …` : text;
    this.sender.add({ log: this, bytes: encode({ ...this.ref, seq: this.#seq, at: Date.now(), level, text: cut.toWellFormed() }) });
  }

  /** Returns when masters have the lines; undefined if no lines are being sent. */
  flush(): Promise<void> | undefined {
    return this.held === 0 ? undefined : this.sender.sent(this);
  }
}

/** Sends the lines of all jobs of a worker. The numbers of the lines show masters how many lines were dropped. */
export class LogSender {
  readonly #held: Line[] = [];
  readonly #wake = new Bell();
  readonly #answered = new Bell();
  #isHurried = false;

  constructor(
    private readonly state: WorkerState,
    private readonly calls: WorkerCalls,
  ) {}

  add(line: Line): void {
    line.log.held += 1;
    this.#held.push(line);
    if (this.#held.length > MAX_HELD_LINES) this.#drop(this.#held.splice(0, 1));
    if (this.#held.length === 1) this.#wake.ring();
  }

  /** Returns when no line of a log is being sent. */
  async sent(log: ClaimLog): Promise<void> {
    while (log.held > 0 && !this.state.isOver) {
      this.#isHurried = true;
      this.#wake.ring();
      await this.#answered.wait(IDLE_MS);
    }
  }

  /** Sends lines until the worker ends. */
  async run(): Promise<void> {
    for (let tries = 0; !this.state.isOver; ) {
      await this.state.registering;
      if (this.#held.length === 0) {
        await Promise.race([this.#wake.wait(IDLE_MS), this.state.pause(IDLE_MS)]);
        continue;
      }
      if (!this.#isHurried) await this.#wake.wait(GATHER_MS);
      this.#isHurried = false;
      const batch = this.#next();
      const body = encodeList("entries", batch.map(({ bytes }) => bytes));
      const answer = await this.calls.call("POST", `/api/workers/${this.state.registered.id}/logs`, { body });
      if (answer.status !== 200 && isTransient(answer)) {
        await this.state.pause(pauseMs(++tries, answer.retryAfterS));
        continue;
      }
      tries = 0;
      this.#drop(this.#held.splice(0, batch.length));
      const stale = new Set((answer.body as Partial<LogsAnswer>).stale);
      for (const { log } of batch) if (stale.has(log.jobId)) log.isStale = true;
      this.#answered.ring();
      if (answer.status !== 200) await this.state.pause(REFUSED_MS);
    }
  }

  #next(): Line[] {
    let size = 0;
    const batch: Line[] = [];
    for (const line of this.#held) {
      size += line.bytes.length;
      if (batch.length > 0 && (batch.length === MAX_LINES_PER_CALL || size > MAX_BYTES_PER_CALL)) break;
      batch.push(line);
    }
    return batch;
  }

  #drop(lines: readonly Line[]): void {
    for (const { log } of lines) log.held -= 1;
  }
}
