/** State that the parts of a worker share. */

import { randomBytes } from "node:crypto";
import type { AnyTask } from "../tasks/task.js";
import { Bell } from "./bell.js";
import { Claims } from "./claims.js";
import { LatestClock, StoreClock } from "./clocks.js";
import type { SlotShare } from "./shared-slots.js";

/**
 * The receiver of a worker's log messages. `console` is one.
 *
 * @example
 * ```ts
 * new Worker({ tasks: [resize], logger: pino() });
 * ```
 */
export interface Logger {
  info(text: string): void;
  warn(text: string): void;
  error(text: string): void;
}

/** One registration. */
export interface Member {
  readonly id: string;
  leaseMs: number;
  intervalMs: number;
}

/** State that the parts of a worker share. */
export class WorkerState {
  readonly claims = new Claims();
  readonly clock = new LatestClock();
  readonly store = new StoreClock(this.clock);
  /** Rings when a job has ended or a result exists. */
  readonly news = new Bell();
  /** Rings when a heartbeat is to be sent now. */
  readonly beat = new Bell();
  /** Undefined before the first registration. */
  member: Member | undefined;
  /** Settles when the registration in progress has ended. */
  registering: Promise<void> | undefined;
  /** The secret of the latest registration. */
  secret = "";
  /** The highest epoch that any answer contained. */
  epoch = 0;
  drainOrdered = false;
  isLeaving = false;
  /** Whether the loops are to end. */
  isOver = false;
  readonly #over = new Bell();

  constructor(
    readonly tasks: ReadonlyMap<string, AnyTask>,
    public maxJobs: number,
    readonly logger: Logger,
    /** The slots of this namespace, if the worker works in several. */
    readonly share?: SlotShare,
  ) {
    if (share === undefined) return;
    share.occupied = () => this.claims.running.length;
    share.onRoom = () => {
      this.news.ring();
    };
    share.onPressure = () => {
      this.beat.ring();
    };
  }

  get isDraining(): boolean {
    return this.isLeaving || this.drainOrdered;
  }

  /** How many further jobs the worker accepts. */
  get room(): number {
    return this.isDraining ? 0 : Math.min(this.claims.room(this.maxJobs), this.share?.room ?? Infinity);
  }

  /** Sets the number of jobs that a master allows. An operator may allow fewer than the worker offered. */
  resize(maxJobs: number): void {
    const { share } = this;
    this.maxJobs = share !== undefined && maxJobs >= share.lastOffered ? share.total : maxJobs;
  }

  /** Called when a job has ended and its slot is free. */
  released(): void {
    this.news.ring();
    this.share?.released();
  }

  /** Returns after `ms`, or when the worker ends. */
  async pause(ms: number): Promise<void> {
    if (!this.isOver) await this.#over.wait(ms);
  }

  /** Ends the loops. */
  end(): void {
    this.isOver = true;
    for (const bell of [this.#over, this.news, this.beat]) bell.ring();
  }

  /**
   * Returns a new secret for the next registration. If a master delays an earlier registration, its address check then
   * fails with the old secret, so it cannot replace a later registration.
   */
  newSecret(): string {
    this.secret = randomBytes(32).toString("hex");
    return this.secret;
  }

  noteEpoch(epoch: number): void {
    this.epoch = Math.max(this.epoch, epoch);
  }

  /** The registration. It exists while the loops run. */
  get registered(): Member {
    if (this.member === undefined) throw new Error("the worker is not registered");
    return this.member;
  }
}
