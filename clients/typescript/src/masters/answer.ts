/** A master's answer to one call. */

import { CONTENT_TYPE, decode, isMap } from "../wire/msgpack.js";
import { NO_EFFECT_CODES } from "../wire/protocol.js";

/** No master answered: the call may or may not have been carried out. */
export class NoAnswerError extends Error {
  override name = "NoAnswerError";
}

/** The longest wait that a Retry-After can cause. */
const MAX_RETRY_AFTER_S = 60;

/** A master's answer. */
export class MasterAnswer {
  private constructor(
    readonly status: number,
    /** The decoded map. Empty: the body is missing, or is not a map. */
    readonly body: Readonly<Record<string, unknown>>,
    readonly bytes: Uint8Array,
    /** The pause that the master asks for, in seconds. */
    readonly retryAfterS: number | undefined,
    /** The job that the header names. */
    readonly jobId: string | null,
    /** The store that the master named. Empty: an older master. */
    readonly store: string,
    /** Names of the push that no worker has ever served. */
    readonly unserved: string,
  ) {}

  /**
   * Reads an answer.
   *
   * @param isRaw Leave the body of a success as bytes.
   * @throws NoAnswerError for an answer that is not from a master.
   */
  static async read(response: Response, isRaw = false): Promise<MasterAnswer> {
    const bytes = new Uint8Array(await response.arrayBuffer());
    const isOurs = response.headers.get("content-type")?.split(";")[0]?.trim().toLowerCase() === CONTENT_TYPE;
    // Proxies answer errors in HTML. A server that answers 200 with something else is not a master.
    if (!isOurs && response.ok && response.status !== 204) throw new NoAnswerError("an answer that is not MessagePack");
    let body: unknown;
    try {
      body = isOurs && !(isRaw && response.ok) ? decode(bytes) : {};
    } catch (error) {
      if (response.ok) throw new NoAnswerError("an answer that cannot be decoded", { cause: error });
    }
    const head = (name: string) => response.headers.get(name);
    return new MasterAnswer(
      response.status, isMap(body) ? body : {}, bytes, secondsOf(head("retry-after")), head("jq-job-id"),
      head("jq-store") ?? "", head("jq-unserved-names") ?? "",
    );
  }

  get isOk(): boolean {
    return this.status >= 200 && this.status < 300;
  }

  get code(): string {
    return typeof this.body["code"] === "string" ? this.body["code"] : "";
  }

  /** Whether repeating the call, or calling another master, may bring a different answer. */
  get isTransient(): boolean {
    // The answer came from the archive, and a repeat would get the same answer.
    if (this.code === "archive_damaged") return false;
    // The conflicting offer ends within moments: the job to replace then either runs or waits again.
    if (this.code === "offer_under_way") return true;
    return [408, 425, 429].includes(this.status) || this.status >= 500 || (this.status >= 300 && this.status < 400);
  }

  /** Whether the master says that the request had no effect. Every 429 says this. */
  get hadNoEffect(): boolean {
    return this.status === 429 || (this.status === 503 && NO_EFFECT_CODES.has(this.code));
  }

  toString(): string {
    const detail = this.body["detail"];
    return [this.status, this.code, typeof detail === "string" ? detail : ""].filter((part) => part !== "").join(" ");
  }
}

/** Returns the seconds in a Retry-After. A date counts as absent, because it would depend on this machine's clock. */
function secondsOf(retryAfter: string | null): number | undefined {
  return retryAfter !== null && /^\s*\d+\s*$/.test(retryAfter) ? Math.min(Number(retryAfter), MAX_RETRY_AFTER_S) : undefined;
}
