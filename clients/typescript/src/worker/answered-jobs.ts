/** Jobs that come with the answers to a worker's reports, so that a slot is filled again without a push. */

import { decode } from "../wire/msgpack.js";
import type { Dispatch } from "../wire/protocol.js";
import type { Offers } from "./offers.js";
import type { WorkerState } from "./state.js";

/** Takes the jobs in answers to reports. */
export class AnsweredJobs {
  #newestFence = 0;

  constructor(
    private readonly state: WorkerState,
    private readonly offers: Offers,
  ) {}

  /** The header of a report if its answer may carry jobs. It shows the masters which answers have arrived. */
  get headers(): Readonly<Record<string, string>> {
    // If no slot is free, ask for no jobs: the worker would have to hand them back.
    return this.state.isDraining || this.state.share?.hasToYield === true ? {} : { "JQ-Jobs-After": String(this.#newestFence) };
  }

  /**
   * Starts the jobs of an answer to a report of the worker `id`. Returns the jobs to hand back.
   *
   * @param fields The answer, with each field still encoded.
   */
  take(id: string, fields: ReadonlyMap<string, Uint8Array>): readonly Dispatch[] {
    const [epoch, jobs] = [fields.get("epoch"), fields.get("jobs")];
    // The membership is over, so leave the jobs until their leases end.
    if (epoch === undefined || jobs === undefined || this.state.member?.id !== id) return [];
    const judged = this.offers.judge(decode(epoch), jobs);
    if (judged === undefined) {
      // Treat the answer as lost: the master then pushes these jobs, and learns what is wrong.
      this.state.logger.error("jobs that came with an answer do not follow the protocol, and are ignored");
      return [];
    }
    const { accepted, rejected } = judged;
    for (const { fence } of [...accepted, ...rejected.map(({ job }) => job)]) this.#newestFence = Math.max(this.#newestFence, fence);
    // Do not hand back a duplicate, because a master might offer it again at once. It waits until its lease ends.
    const refused = rejected.filter(({ reason }) => reason !== "duplicate");
    for (const { job, reason } of refused) {
      // Together, namespaces that share slots are offered more jobs than there are slots.
      if (reason !== "busy" || this.state.share === undefined) this.state.logger.warn(`job ${job.job_id} is handed back: ${reason}`);
    }
    return refused.map(({ job }) => job);
  }
}
