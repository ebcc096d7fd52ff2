/** The calls of a worker to masters. Each is made once, and a missing answer is a value, not an error. */

import { NoAnswerError, type MasterAnswer } from "../masters/answer.js";
import type { CallOptions, MasterClient } from "../masters/client.js";

/** An answer. Status 0 means that there was none. */
export interface Answer {
  readonly status: number;
  readonly code: string;
  readonly detail: string;
  readonly body: Readonly<Record<string, unknown>>;
  readonly bytes: Uint8Array;
  readonly retryAfterS: number | undefined;
}

/** Makes the calls of a worker. */
export class WorkerCalls {
  constructor(private readonly client: MasterClient) {}

  async call(method: "POST" | "DELETE", path: string, options: CallOptions = {}): Promise<Answer> {
    try {
      return answerOf(await this.client.call(method, path, options));
    } catch (error) {
      if (!(error instanceof NoAnswerError)) throw error;
      return { status: 0, code: "", detail: error.message, body: {}, bytes: new Uint8Array(), retryAfterS: undefined };
    }
  }

  /** The clients of a worker trust the masters of its store for as long as its leases last. */
  set patienceMs(leaseMs: number) {
    this.client.masters.affinity.patienceMs = leaseMs;
  }
}

/** Returns whether a repeat may be answered differently. A wrong token may be corrected meanwhile. */
export function isTransient({ status }: Answer): boolean {
  return status === 0 || [401, 403, 408, 421, 425, 429].includes(status) || status >= 500 || (status >= 300 && status < 400);
}

function answerOf(answer: MasterAnswer): Answer {
  const { status, code, body, bytes, retryAfterS } = answer;
  return { status, code, body, bytes, retryAfterS, detail: typeof body["detail"] === "string" ? body["detail"] : String(status) };
}
