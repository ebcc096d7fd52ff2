/** An order: a shop accepts it, works for a while, and calls back. */

import { CodedError, Defer, challengeTask, type ChallengeContext, type PrepareChallenger } from "jqmaster-sdk";
import type { Answer, ShopClient } from "./shop.js";

export interface OrderArgs {
  readonly order: number;
  readonly shop: string;
}

export interface OrderResult {
  readonly receipt: string;
}

class Order implements PrepareChallenger<OrderArgs, Answer, OrderResult> {
  readonly retryCodes = ["TEMPORARY_UNAVAILABLE", "RESOURCE_CONFLICT", "NETWORK_ERROR"];

  constructor(
    private readonly args: OrderArgs,
    private readonly shop: ShopClient = { url: args.shop },
  ) {}

  /** Checks whether the shop can accept another order. If not, the job waits, without using a retry. */
  async prepare(): Promise<boolean | Defer> {
    const { ok } = await fetch(`${this.shop.url}/room`).catch(unreachable);
    return ok || new Defer(0.2, { reason: "the shop is full" });
  }

  /** Hands the order over. The key makes a repeated call safe: the order is carried out only once. */
  async challenge({ requestId, callbackUrl, idempotencyKey, signal }: ChallengeContext<OrderArgs>): Promise<void> {
    const answer = await fetch(`${this.shop.url}/orders`, {
      method: "POST",
      headers: { "Content-Type": "application/json", "Idempotency-Key": idempotencyKey },
      body: JSON.stringify({ order: this.args.order, requestId, callbackUrl }),
      signal,
    }).catch(unreachable);
    if (!answer.ok) throw new CodedError(((await answer.json()) as { error: string }).error);
  }

  /**
   * Decides the outcome from the answer. A receipt is the result. A code fails the attempt, and the job is retried if
   * the code is a retry code.
   */
  onCallback(answer: Answer): OrderResult {
    if ("error" in answer) throw new CodedError(answer.error, `order ${this.args.order} was not carried out`);
    return { receipt: answer.receipt };
  }
}

export const placeOrder = challengeTask<OrderArgs, Answer, OrderResult>(
  "order.place",
  { answerWithin: 10, challengeTimeout: 5, maxRetry: 8, retry: { baseS: 0.1 }, maxWait: 1, keepResult: true },
  Order,
);

function unreachable(error: unknown): never {
  throw new CodedError("NETWORK_ERROR", String(error));
}
