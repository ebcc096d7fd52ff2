/** Reports about the ends of attempts, for masters. */

import { kindOf, orderOf, type HandlerOrder } from "../errors/orders.js";
import { encode } from "../wire/msgpack.js";
import type { ResultItem } from "../wire/protocol.js";

type Distributed<Item, Keys extends PropertyKey> = Item extends unknown ? Omit<Item, Keys> : never;
/** A result without the claim that it belongs to. */
export type Outcome = Distributed<ResultItem, "job_id" | "token" | "finished_at">;

const MAX_MESSAGE = 1_000;
const MAX_STACK = 14_000;
/** Masters allow workers to delay a job for at most a week. */
const MAX_RETRY_AFTER_S = 7 * 86_400;

/**
 * Returns the outcome of a handler that returned. If the value cannot be sent, the outcome is a failure that says so.
 */
export function returned(value: unknown): Outcome {
  try {
    encode(value);
  } catch (error) {
    return failure(`the result cannot be sent: ${messageOf(error)}`, { retries: false });
  }
  return { type: "success", result: value ?? null };
}

/** Returns the outcome of a handler that threw. `retryCodes`: the retry codes of its task. */
export function thrown(error: unknown, retryCodes: ReadonlySet<string> | undefined): Outcome {
  const order = orderOf(error);
  return order === undefined ? failure(textOf(error), { retries: true, error }) : ordered(order, retryCodes);
}

/** Returns the outcome of an attempt that was stopped at its timeout. */
export function timedOut(timeoutS: number): Outcome {
  return { type: "failure", reason: "timeout", should_retry: true, error: null, message: `not finished within ${timeoutS} s` };
}

/** Returns the outcome of a job with an argument that JavaScript cannot represent. */
export function undecodable(error: unknown): Outcome {
  return { ...failure(`the job cannot be decoded: ${messageOf(error)}`, { retries: false }), reason: "undecodable" };
}

/** Returns the outcome to report after a master refused the first one. */
export function refusedByMaster(detail: string): Outcome {
  return failure(`the master refused the result: ${detail}`, { retries: false });
}

function ordered(order: HandlerOrder, retryCodes: ReadonlySet<string> | undefined): Outcome {
  switch (kindOf(order)) {
    case "defer": {
      const { retryAfter, hold } = order as Extract<HandlerOrder, { hold: unknown }>;
      const held = hold === undefined ? {} : { hold: typeof hold === "string" ? { constraint: hold } : hold };
      return { type: "deferred", retry_after: bounded(retryAfter), ...held };
    }
    case "not_ready": {
      const { retryAfter, reason, limits } = order as Extract<HandlerOrder, { limits: unknown }>;
      const forS = limits.forS === undefined ? {} : { for_s: limits.forS };
      return {
        type: "deferred",
        retry_after: bounded(retryAfter),
        not_ready: { max_wait_s: bounded(limits.maxWaitS), reason: reason.slice(0, MAX_MESSAGE), ...forS },
      };
    }
    case "challenged":
      return { type: "challenged", request_id: (order as Extract<HandlerOrder, { requestId: string }>).requestId };
    case "discard":
      return { type: "discarded", message: order.message.slice(0, MAX_MESSAGE), error: null };
    case "fail":
      return failure(order.message, { retries: false, error: order });
    case "retry": {
      const { after } = order as Extract<HandlerOrder, { after: unknown }>;
      return { ...failure(order.message, { retries: true, error: order }), ...(after === undefined ? {} : { retry_after: bounded(after) }) };
    }
    case "coded": {
      const { code, retries = retryCodes?.has(code) ?? true } = order as Extract<HandlerOrder, { code: string }>;
      return { ...failure(order.message, { retries, error: order }), code: code.slice(0, 64) };
    }
  }
}

function failure(message: string, { retries, error = null }: { retries: boolean; error?: unknown }): Extract<Outcome, { type: "failure" }> {
  return {
    type: "failure",
    reason: "other",
    should_retry: retries,
    message: message.slice(0, MAX_MESSAGE).toWellFormed(),
    error: error === null ? null : describe(error),
  };
}

function describe(error: unknown): { type: string; message: string; traceback: string } {
  if (!(error instanceof Error)) return { type: typeof error, message: messageOf(error), traceback: "" };
  const stack = (error.stack ?? "") + (error.cause instanceof Error ? `\ncaused by ${error.cause.stack ?? error.cause.message}` : "");
  return { type: error.name, message: textOf(error), traceback: stack.slice(0, MAX_STACK).toWellFormed() };
}

/** Returns the text of an error. The type comes first, because some viewers may see only the type. */
function textOf(error: unknown): string {
  return error instanceof Error && orderOf(error) === undefined ? `${error.name}: ${messageOf(error)}` : messageOf(error);
}

function messageOf(error: unknown): string {
  const text = error instanceof Error ? error.message : typeof error === "string" ? error : `thrown: ${typeof error}`;
  return text.slice(0, MAX_MESSAGE).toWellFormed();
}

function bounded(seconds: number): number {
  return Math.min(Math.max(0, Number.isNaN(seconds) ? 0 : seconds), MAX_RETRY_AFTER_S);
}
