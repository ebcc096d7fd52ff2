/**
 * Push jobs to the job queue jqmaster, and run them.
 *
 * @packageDocumentation
 */

export { AnswerMismatchError, JqmasterError, NotUniqueError, RefusedError, UnavailableError } from "./errors/calls.js";
export { CodedError, Defer, Discard, Fail, Retry, type Hold } from "./errors/orders.js";
export {
  JobCanceled,
  JobDiscarded,
  JobFailed,
  JobSkipped,
  NoResultError,
  NotFinished,
  ResultGone,
  ResultNotKept,
} from "./errors/results.js";
export type { Fetch } from "./masters/client.js";
export type { WaitOptions } from "./pusher/backend.js";
export { configure } from "./pusher/default.js";
export type { After, JobOptions, Ref } from "./pusher/options.js";
export { Pusher, type PusherOptions } from "./pusher/pusher.js";
export { Batch, batch, type BatchOptions } from "./tasks/batch.js";
export { Flow, FlowHandles, chain, chord, group, type Step } from "./tasks/flow.js";
export { JobHandle } from "./tasks/handle.js";
export { Job } from "./tasks/job.js";
export { Task, task, type AnyTask, type Handler, type TaskOptions, type WithOptions } from "./tasks/task.js";
export { newId } from "./wire/ids.js";
export type { BatchView, JobInput, JobState, JobView, LogLevel, Problem, ProblemField, ProgressView } from "./wire/protocol.js";
export { Challenged } from "./errors/orders.js";
export {
  Callback,
  CheckpointNotSaved,
  type Challenge,
  type ChallengeOptions,
  type Context,
  type JobLog,
  type ObservedRoom,
} from "./worker/context.js";
export type { Logger } from "./worker/state.js";
export type { NamespaceShares } from "./worker/shared-slots.js";
export { Worker, type WorkerOptions } from "./worker/worker.js";
export {
  challengeTask,
  type ChallengeContext,
  type ChallengeTaskOptions,
  type PrepareChallenger,
  type PrepareChallengerClass,
} from "./challenges/prepare-challenger.js";
