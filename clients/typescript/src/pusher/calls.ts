/** Repeats calls until there is a final answer. */

import { setTimeout as sleep } from "node:timers/promises";
import { AnswerMismatchError, JqmasterError, RefusedError, UnavailableError, refused } from "../errors/calls.js";
import { MasterAnswer, NoAnswerError } from "../masters/answer.js";
import type { MasterClient } from "../masters/client.js";
import { pauseMs } from "../masters/masters.js";
import type { Problem } from "../wire/protocol.js";
import { warnOfNames } from "./unserved.js";

/** One call, and the jobs that its answer must be about. */
export interface Call {
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly body?: Uint8Array<ArrayBuffer>;
  /** The jobs to enqueue. */
  readonly jobIds?: readonly string[];
  /** The positions of jobs with keys that decide their IDs. */
  readonly keyed?: ReadonlySet<number>;
  /** The job or batch to read or change. */
  readonly of?: string;
  readonly signal?: AbortSignal | undefined;
}

/** Makes calls, and repeats each at any master for up to `maxWaitMs`. */
export class RepeatedCalls {
  constructor(
    private readonly client: MasterClient,
    private readonly maxWaitMs: number,
  ) {}

  /** Timeout of one try. */
  get timeoutMs(): number {
    return this.client.timeoutMs;
  }

  /**
   * Returns the final answer.
   *
   * @throws RefusedError, UnavailableError, AnswerMismatchError, or the reason of `signal`.
   */
  async call(call: Call): Promise<MasterAnswer> {
    const endMs = performance.now() + this.maxWaitMs;
    const jobIds = call.jobIds ?? [];
    let unknownIds: readonly string[] = [];
    for (let tries = 1; ; tries++) {
      call.signal?.throwIfAborted();
      const { masters } = this.client;
      const address = masters.current;
      const answer = await this.client.call(call.method, call.path, { body: call.body, signal: call.signal }).catch(asNoAnswer);
      if (answer instanceof MasterAnswer) {
        checkJobs(answer, call);
        if (!answer.isTransient) return final(answer, address, unknownIds);
        masters.failed(address);
      }
      // The master may have carried out the call even though the answer is missing.
      if (!(answer instanceof MasterAnswer && answer.hadNoEffect)) unknownIds = jobIds;
      const retryAfterS = answer instanceof MasterAnswer ? answer.retryAfterS : undefined;
      // Try the other masters at once: there is no need to wait because one is down.
      if (retryAfterS === undefined && tries < masters.addresses.length) continue;
      const waitMs = pauseMs(tries, retryAfterS);
      if (performance.now() + waitMs > endMs) {
        const last = answer instanceof MasterAnswer ? answer.toString() : answer.message;
        throw withIds(new UnavailableError(`no final answer after ${tries === 1 ? "1 try" : `${tries} tries`}; the last: ${last}`), unknownIds);
      }
      await sleep(waitMs, undefined, call.signal === undefined ? {} : { signal: call.signal }).catch(() => {
        call.signal?.throwIfAborted();
      });
    }
  }
}

function asNoAnswer(error: unknown): NoAnswerError {
  if (error instanceof NoAnswerError) return error;
  throw error;
}

function final(answer: MasterAnswer, address: string, unknownIds: readonly string[]): MasterAnswer {
  if (!answer.isOk) throw withIds(refused(answer.status, problemOf(answer, address)), unknownIds);
  if (answer.unserved !== "") warnOfNames(answer.unserved);
  return answer;
}

function withIds<Kind extends JqmasterError>(error: Kind, unknownIds: readonly string[]): Kind {
  error.unknownIds = unknownIds;
  return error;
}

/** Returns the problem of a refusal, with advice in its `detail`. */
function problemOf(answer: MasterAnswer, address: string): Partial<Problem> {
  const problem = answer.body as Partial<Problem>;
  const detail = problem.detail ?? problem.title ?? "";
  if (answer.status === 401) {
    return { ...problem, detail: [detail, "set JQMASTER_TOKEN or the option token"].filter((part) => part !== "").join("; ") };
  }
  // Show the master's own text. But if the master has no such route, say that the configured address has a path by
  // mistake.
  const hasPath = new URL(address).pathname !== "/";
  if (answer.status === 404 && (answer.code === "" || (hasPath && answer.code === "not_found"))) {
    return { ...problem, detail: `no jqmaster at ${address}; give http://host:port` };
  }
  return problem;
}

function checkJobs(answer: MasterAnswer, { of, jobIds = [], keyed }: Call): void {
  const asked = of === undefined ? jobIds : [of];
  let answered: readonly string[];
  if (answer.jobId !== null) answered = [answer.jobId];
  else if (answer.isOk && typeof answer.body["id"] === "string") answered = [answer.body["id"]];
  else if (answer.isOk && jobIds.length > 0) answered = Array.isArray(answer.body["ids"]) ? answer.body["ids"].map(String) : [];
  else return; // the answer names no job
  const differs = asked.length !== answered.length || asked.some((id, index) => id !== answered[index] && keyed?.has(index) !== true);
  if (!differs) return;
  throw withIds(new AnswerMismatchError(asked, answered), jobIds);
}

/** Converts the failure of a chunk to a failure of the whole call. Its indexes count from the start of the call. */
export function afterAccepted(error: unknown, acceptedIds: readonly string[]): unknown {
  if (!(error instanceof JqmasterError)) return error;
  let told = error;
  if (error instanceof RefusedError && acceptedIds.length > 0) {
    const errors = error.errors.map(({ loc: [list, index, ...rest], msg }) => ({
      loc: list === "jobs" && typeof index === "number" ? [list, index + acceptedIds.length, ...rest] : [list, index, ...rest].filter((part) => part !== undefined),
      msg,
    }));
    const jobId = "jobId" in error && typeof error.jobId === "string" ? { job_id: error.jobId } : {};
    told = withIds(refused(error.status, { code: error.code, detail: error.detail, errors, ...jobId }), error.unknownIds);
  }
  told.acceptedIds = acceptedIds;
  return told;
}
