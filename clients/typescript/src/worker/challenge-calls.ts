/** Opens challenges at the masters: work that another system does, and then answers with a callback. */

import { randomBytes } from "node:crypto";
import { UnavailableError, refused } from "../errors/calls.js";
import { pauseMs } from "../masters/masters.js";
import { encode } from "../wire/msgpack.js";
import type { OpenChallengeAnswer, OpenChallengeRequest } from "../wire/protocol.js";
import type { Claim } from "./claims.js";
import type { Challenge, ChallengeOptions } from "./context.js";
import type { WorkerState } from "./state.js";
import { isTransient, type WorkerCalls } from "./worker-calls.js";

const ANSWER_WITHIN_S = 86_400;

/**
 * Opens a challenge, and repeats the call until the job is to stop. With the nonce, a repeat opens no second challenge.
 *
 * @throws RefusedError, or UnavailableError.
 */
export async function openChallenge(
  state: WorkerState,
  calls: WorkerCalls,
  claim: Claim,
  { answerWithin = ANSWER_WITHIN_S, expect, meta }: ChallengeOptions,
): Promise<Challenge> {
  const request: OpenChallengeRequest = {
    ...claim.ref,
    timeout_s: answerWithin,
    nonce: randomBytes(24).toString("base64url"),
    ...(expect === undefined ? {} : { expect }),
    ...(meta === undefined ? {} : { meta }),
  };
  const body = encode(request);
  for (let tries = 1; ; tries++) {
    const answer = await calls.call("POST", `/api/workers/${state.registered.id}/challenges`, { body });
    if (answer.status === 201 || answer.status === 200) {
      const { request_id: requestId, callback_url: callbackUrl } = answer.body as unknown as OpenChallengeAnswer;
      return { requestId, callbackUrl };
    }
    if (!isTransient(answer)) throw refused(answer.status, answer.body);
    if (claim.stopping !== undefined) throw new UnavailableError(`no challenge was opened: ${answer.detail}`);
    await state.pause(pauseMs(tries, answer.retryAfterS));
  }
}
