/**
 * The messages between master, worker and pusher.
 *
 * Generated from openapi/jqmaster.yaml and openapi/worker.yaml by `make spec`; changes are made there.
 *
 * @module
 */

/** The jobs for which a job waits, its predecessors. */
export interface AfterRequest {
  /**
   * IDs of jobs in the store or in the same bulk, without duplicates. The job gets the results of these jobs in
   * this order.
   */
  jobs: string[];
  /**
   * succeeded: the job runs when all predecessors have succeeded, and is skipped when one of them ends otherwise.
   * finished: the job runs when all predecessors are over, however they ended.
   */
  when?: AfterWhen;
}

/** The predecessors of a job. */
export interface AfterView {
  when: AfterWhen;
  jobs: PredecessorView[];
}

/** The condition under which a job starts: its predecessors have succeeded, or have ended in any way. */
export type AfterWhen = "succeeded" | "finished";

/** One attempt of the job. `outcome` is null while it runs. */
export interface AttemptView {
  attempt: number;
  worker_id: string;
  started_at: string;
  finished_at: string | null;
  /**
   * success, failure, timeout, lost, canceled, deferred, not_ready, callback_timeout, discarded, handed_back or
   * returned. Future releases may add values.
   */
  outcome: string | null;
  /** Error message. Null if there is none or the caller may not see it. `[redacted]` if nobody may see it. */
  message: string | null;
  /** Name that the worker gave to the failure. */
  code?: string | null;
  /** Type of the exception, as the worker's SDK named it. Every caller sees it. Null if unknown. */
  error_type: string | null;
  /** Any value. In JSON, binary is {"$bin": base64}. */
  error: unknown;
}

/** The callbacks of a batch. Null: the batch has no callback of this kind. */
export interface BatchCallbacks {
  on_success: CallbackView | null;
  on_complete: CallbackView | null;
  on_failure: CallbackView | null;
}

/** Counts of the jobs of a batch. */
export interface BatchCounts {
  total: number;
  /** Jobs that are not over. */
  unfinished: number;
  /** Null in lists, and for batches with more than 5,000 jobs. */
  scheduled: number | null;
  /** Null in lists, and for batches with more than 5,000 jobs. */
  ready: number | null;
  /** Null in lists, and for batches with more than 5,000 jobs. */
  retrying: number | null;
  /** Null in lists, and for batches with more than 5,000 jobs. */
  running: number | null;
  succeeded: number;
  discarded: number;
  failed: number;
  canceled: number;
  skipped: number;
  /** Jobs that were deleted before they succeeded. If there are any, the batch can no longer succeed. */
  deleted: number;
  /**
   * Jobs that are over and were deleted. They also count in the state in which they ended. They cannot be retried.
   */
  gone?: number;
}

/** A batch to create. */
export interface BatchRequest {
  /**
   * ID chosen by the client. It makes the request safe to repeat while the batch is kept. A batch is kept for
   * `batch_retention_s` (7 days by default) after it is complete. After that, a repeat creates a new batch.
   */
  id?: string | null;
  description?: string;
  tags?: string[];
  /**
   * Job to enqueue when all members have succeeded or were discarded. Members that failed and succeeded after a
   * retry count as succeeded.
   */
  on_success?: CallbackRequest | null;
  /** Job to enqueue when all members are over. */
  on_complete?: CallbackRequest | null;
  /** Job to enqueue when the first member fails for good. */
  on_failure?: CallbackRequest | null;
  /** The batch to which this batch belongs. Batches can be 10 levels deep. */
  batch?: string | null;
  /**
   * If the batch is not complete at this time, it is canceled. A time in the past is refused. Null: `batch_life_s`
   * after its creation.
   */
  expires_at?: string | null;
  /** Seconds from now until the batch expires. Cannot be combined with expires_at. */
  expires_s?: number | null;
}

/**
 * The state of a batch. `open`: its pusher may add jobs. `sealed`: only its own jobs may add more. `complete`: all
 * of its jobs are over.
 */
export type BatchState = "open" | "sealed" | "complete";

/** A batch. */
export interface BatchView {
  /** UUID in lower case. Masters generate UUIDv7. */
  id: string;
  state: BatchState;
  counts: BatchCounts;
  batches: NestedCounts;
  description: string;
  tags: string[];
  callbacks: BatchCallbacks;
  /** The batch to which this batch belongs. */
  batch: string | null;
  created_at: string;
  completed_at: string | null;
  canceled_at: string | null;
  /** Time at which the batch is canceled if it is not complete. */
  expires_at: string | null;
}

/** The IDs of the stored jobs, in the order of the request. */
export interface BulkAnswer {
  ids: string[];
  /** The batch that the request created. Missing if it created none. */
  batch?: string;
  /**
   * Indexes of jobs that were not created, because another job holds the uniqueness key. `ids` has the ID of that
   * job at the same index. Missing if there are none.
   */
  duplicates?: number[];
  /**
   * Indexes of jobs that were not created, because a waiting job took the content. `ids` has the ID of that job at
   * the same index. Missing if there are none.
   */
  replaced?: number[];
}

/** The batch that started a job. */
export interface CallbackOfView {
  /** UUID in lower case. Masters generate UUIDv7. */
  batch: string;
  /** on_success, on_complete or on_failure. Future releases may add values. */
  callback: string;
}

/** A job that a batch starts. It has the fields of a pushed job, except `id` and `batch`. */
export interface CallbackRequest {
  /** Kind of job. It selects the handler. */
  name: string;
  /** Any value. In JSON, binary is {"$bin": base64}. */
  argument?: unknown;
  /** The lowest number runs first. */
  priority?: number;
  /** Maximum number of retries after failed runs. 0: never retry. */
  max_retry?: number;
  /** Keep the result so that it can be fetched. */
  keep_result?: boolean;
  /** Maximum run time in seconds. A longer run fails. */
  timeout?: number;
  retry?: RetryRequest | null;
  /** Run the job again when its worker was lost, even if max_retry is 0. */
  rerun_lost?: boolean;
  tags?: string[];
  headers?: Record<string, string>;
  /** Labels, each with its value. Only a worker that registered with all of them gets the job. */
  requires?: Record<string, string> | null;
  /**
   * Seconds from the push, by the clock of the store. After this time, the job is skipped if it still waits, even
   * for a retry. Cannot be combined with expires_at.
   */
  expires_s?: number | null;
  /** Seconds to wait after the batch starts this job. */
  delay?: number | null;
}

/** The state of a batch's callback. `due`: its job is about to be enqueued. */
export type CallbackState = "waiting" | "due" | "enqueued";

/** A job that a batch starts. */
export interface CallbackView {
  name: string;
  /** due: the job is about to be enqueued. */
  state: CallbackState;
  /** ID that the job has, or will have. */
  job_id: string;
}

/** The worker stopped the job because it was canceled. */
export interface CanceledItem {
  /** UUID in lower case. Masters generate UUIDv7. */
  job_id: string;
  token: string;
  finished_at: string;
  used?: Record<string, number> | null;
  /**
   * Time of the store at which the system that a constraint protects had counted the attempt's last call. The job's
   * start then counts in each rate for a full period after this time. If the field is omitted, the start counts for
   * a full period after the claim, although the call may have reached that system later.
   */
  called_at_ms?: number | null;
  type: "canceled";
}

/**
 * The work was handed to an outside system. The worker is free, and the attempt continues when the callback comes.
 */
export interface ChallengedItem {
  /** UUID in lower case. Masters generate UUIDv7. */
  job_id: string;
  token: string;
  finished_at: string;
  type: "challenged";
  /** Request ID of the challenge that the attempt opened. */
  request_id: string;
}

/** A way to answer. */
export interface ChoiceRequest {
  /** Name of the choice, as the handler gets it. */
  value: string;
  /** Text of the choice's button. `approve` and `reject` have a default text in each language. */
  label?: string;
  /** True: an answer with this choice must have a comment. */
  needs_comment?: boolean;
  /** True: an answer with this choice has no field values. */
  skips_fields?: boolean;
}

/** A claim: a job and the token to settle it. */
export interface ClaimRef {
  /** UUID in lower case. Masters generate UUIDv7. */
  job_id: string;
  token: string;
}

/** Poll of a worker without an address. Make one call at a time: a later call ends the previous call. */
export interface ClaimRequest {
  /** True: withdraw the call with this `poll_id`. Jobs in its answer wait again. */
  withdraw?: boolean;
  /** Maximum number of jobs to take now. Required if `withdraw` is not true. */
  max?: number | null;
  /** Seconds to wait for the first job: at most 60, and at least 0.25. */
  wait?: number;
  /**
   * ID of the call. The worker chooses a new ID for each call. If the answer was lost, repeat the call with the
   * same ID at any master to get the same jobs. A new ID confirms that the previous answers arrived.
   */
  poll_id?: string | null;
  /**
   * Jobs of earlier answers that the worker did not start and refuses. They wait again as if they had never been
   * claimed.
   */
  refused?: ClaimRef[];
}

/** A claim that the worker named. */
export interface ClaimView {
  /** UUID in lower case. Masters generate UUIDv7. */
  job_id: string;
  token: string;
}

/** The contract of a job name, as the worker that runs these jobs declares it. */
export interface ContractRequest {
  /** Version of the contract, for people. */
  version?: string;
  /**
   * JSON Schema (draft 2020-12) of the argument, without references to other documents. Null: any argument. The
   * schema applies to a JSON form of the argument, with base64 text for binary, ISO 8601 text for timestamps, and
   * texts for map keys. Masters check the formats `byte`, `date`, `date-time`, `decimal`, `duration`, `time` and
   * `uuid`. Other formats are only informative.
   */
  argument_schema?: Record<string, unknown> | null;
  /** Default options of jobs with this name, for people and for forms. */
  options?: Record<string, unknown>;
}

/** The job waits. Each further push with the key replaces the content of the job and restarts the wait. */
export interface DebounceRequest {
  /**
   * Uniqueness key: text of at most 200 bytes. Only one job of the name can hold it. Null: the argument is the key.
   */
  key?: string | null;
  /** Seconds to wait after the last push with the key. */
  wait_s: number;
  /**
   * Maximum delay in seconds, counted from the first push. At least wait_s. Null: further pushes can delay the job
   * without a bound.
   */
  max_s?: number | null;
}

/** How pushes with the key delay the job. */
export interface DebounceView {
  wait_s: number;
  max_s: number | null;
}

/** The handler defers the job to a later time. This does not count as a retry. */
export interface DeferredItem {
  /** UUID in lower case. Masters generate UUIDv7. */
  job_id: string;
  token: string;
  finished_at: string;
  used?: Record<string, number> | null;
  /**
   * Time of the store at which the system that a constraint protects had counted the attempt's last call. The job's
   * start then counts in each rate for a full period after this time. If the field is omitted, the start counts for
   * a full period after the claim, although the call may have reached that system later.
   */
  called_at_ms?: number | null;
  type: "deferred";
  /**
   * Wait before the next attempt, in seconds. A job that is deferred again and again waits up to 1 s even if this
   * value is less.
   */
  retry_after: number;
  /**
   * Gate to hold: until the next attempt, all other jobs of this constraint, or of this value of its key, are held
   * back, too.
   */
  hold?: HoldRequest | null;
  /** The handler's check found that the work cannot begin yet. */
  not_ready?: NotReadyRequest | null;
}

/**
 * The handler found that nothing is left to do. The job ends as `discarded`, which does not count as a failure. It
 * is not retried.
 */
export interface DiscardedItem {
  /** UUID in lower case. Masters generate UUIDv7. */
  job_id: string;
  token: string;
  finished_at: string;
  used?: Record<string, number> | null;
  /**
   * Time of the store at which the system that a constraint protects had counted the attempt's last call. The job's
   * start then counts in each rate for a full period after this time. If the field is omitted, the start counts for
   * a full period after the claim, although the call may have reached that system later.
   */
  called_at_ms?: number | null;
  type: "discarded";
  /** Any value. In JSON, binary is {"$bin": base64}. */
  error?: unknown;
  /** Reason for people. */
  message?: string;
}

/** A job offered to a worker. */
export interface Dispatch {
  /** UUID in lower case. Masters generate UUIDv7. */
  job_id: string;
  /** Number of attempts so far, including this one. */
  attempt: number;
  /** Right to settle this claim. Name it in heartbeats and results. */
  token: string;
  /**
   * Number that grows with every claim, even across failovers. Your database can use it to reject a late writer.
   */
  fence: number;
  /**
   * Action to perform. `callback`: the attempt continues with the callbacks of its challenge. Only an attempt that
   * reported `challenged` gets this phase. Future releases may add phases.
   */
  phase: "run" | "callback";
  /** Selects the handler. */
  name: string;
  /** Argument as the pusher sent it. */
  argument: unknown;
  /** Maximum run time in seconds. End a longer run and report it as a timeout. */
  timeout: number;
  /** Store time (Unix ms) after which the worker must refuse the offer as too_late. */
  not_after_ms: number;
  /** Store time at which the first lease ends. An answered heartbeat that names the token extends it. */
  lease_until_ms: number;
  /** Headers as the pusher sent them. */
  headers: Record<string, string>;
  /** The last checkpoint that an earlier attempt saved. Omitted if there is none. */
  checkpoint?: unknown;
  /** The batch to which the job belongs, or that started the job. Omitted if there is none. */
  batch?: string | null;
  /** The callback, in the phase `callback`. */
  callback?: OutsideCallback | null;
  /** All callbacks, if the challenge expected several. */
  callbacks?: OutsideCallback[] | null;
  /** The predecessors of the job, in the order in which its push named them. Omitted if it has none. */
  inputs?: JobInput[] | null;
}

/** The ID of the stored job. */
export interface EnqueueAnswer {
  /** UUID in lower case. Masters generate UUIDv7. */
  id: string;
  /** True: no job was created, because the job with this `id` holds the uniqueness key. Missing otherwise. */
  duplicate?: boolean;
  /**
   * True: no job was created. Instead, the waiting job with this `id` took the content of this push. Missing
   * otherwise.
   */
  replaced?: boolean;
}

/** The handler failed or exceeded its timeout, or the worker could not give it the argument. */
export interface FailureItem {
  /** UUID in lower case. Masters generate UUIDv7. */
  job_id: string;
  token: string;
  finished_at: string;
  used?: Record<string, number> | null;
  /**
   * Time of the store at which the system that a constraint protects had counted the attempt's last call. The job's
   * start then counts in each rate for a full period after this time. If the field is omitted, the start counts for
   * a full period after the claim, although the call may have reached that system later.
   */
  called_at_ms?: number | null;
  type: "failure";
  /**
   * undecodable: the worker could not decode the job. invalid_argument: the argument does not fit the handler, so
   * the handler did not run. A job with either cause is not retried.
   */
  reason: "other" | "timeout" | "undecodable" | "invalid_argument";
  /** False: end the job without a retry. */
  should_retry: boolean;
  /** Any value. In JSON, binary is {"$bin": base64}. */
  error?: unknown;
  /** Error message for people. */
  message?: string;
  /** Name of the failure for programs, such as RESOURCE_CONFLICT. It is kept with the attempt. */
  code?: string;
  /** Minimum wait before the next attempt, in seconds. A value below the backoff has no effect. */
  retry_after?: number | null;
}

/** The error of a job that failed for good. */
export interface FailureView {
  type: "failure";
  finished_at: string;
  reason: "other" | "timeout" | "undecodable" | "invalid_argument" | "callback_timeout" | "not_ready";
  /** Name that the worker gave to the failure. Omitted: none. */
  code?: string;
  should_retry: boolean;
  message: string;
  /** Any value. In JSON, binary is {"$bin": base64}. */
  error: unknown;
}

/** A question to people, with a page of its own at the address of the challenge. */
export interface FormRequest {
  title: string;
  /** Plain text; its line breaks are shown. */
  description?: string;
  /** Ways to answer. Empty: the choices `approve` and `reject`. An answer with `reject` has no field values. */
  choices?: ChoiceRequest[];
  comment?: "none" | "optional" | "required";
  /**
   * JSON Schema of an object with at most 20 fields, which people fill in. A string may have `enum`, `minLength`,
   * `maxLength` and `format` (`date`, `email` or `uri`). An integer or a number may have `enum`, `minimum` and
   * `maximum`. A boolean has no rules. Every field may have `title`, `description` and `default`.
   */
  fields?: Record<string, unknown> | null;
}

/** The worker stops and returns the job for another worker. This does not count as a retry. */
export interface HandedBackItem {
  /** UUID in lower case. Masters generate UUIDv7. */
  job_id: string;
  token: string;
  finished_at: string;
  used?: Record<string, number> | null;
  /**
   * Time of the store at which the system that a constraint protects had counted the attempt's last call. The job's
   * start then counts in each rate for a full period after this time. If the field is omitted, the start counts for
   * a full period after the claim, although the call may have reached that system later.
   */
  called_at_ms?: number | null;
  type: "handed_back";
}

/** State of the named claims. Claims in neither `cancel` nor `lost` are renewed until `lease_until_ms`. */
export interface HeartbeatAnswer {
  epoch: number;
  store_time_ms: number;
  /**
   * Newest fence of any claim at `store_time_ms`. If `store_time_ms` is impossibly early, the store's clock was set
   * back. In this case, refuse offers with this fence or a lower fence as `too_late`. If omitted: 0.
   */
  fence?: number;
  /**
   * New end of the renewed leases. If no lease was renewed, this equals `store_time_ms`, and the leases keep their
   * previous end.
   */
  lease_until_ms: number;
  /** Heartbeat interval from now on. If omitted, it is unchanged. */
  heartbeat_interval_s?: number;
  /** Duration of leases from now on. If omitted, it is unchanged. */
  lease_s?: number;
  /**
   * Claims of canceled jobs. Stop each job and report `canceled`, which frees its slot at once. Any other result is
   * answered `stale` and changes nothing.
   */
  cancel: ClaimView[];
  /** Claims that are over. Stop each job and report nothing. */
  lost: ClaimView[];
  /** True: finish the running jobs. No more will come. */
  drain: boolean;
  /**
   * True: the worker was detached. Send up to `continue_questions` heartbeats with `asks_to_continue`,
   * `continue_pause_s` seconds apart. If no answer permits the worker to continue, stop all jobs and register
   * again.
   */
  detached: boolean;
  /**
   * Number of jobs that the worker may run from now on. An operator may have changed this number. Finish the
   * running jobs even if they exceed it. If omitted, the registered number applies.
   */
  max_jobs?: number;
  /** Maximum number of heartbeats with `asks_to_continue`. If omitted: 3. */
  continue_questions?: number;
  /** Seconds between two heartbeats with `asks_to_continue`. If omitted: 0.3. */
  continue_pause_s?: number;
  /** Invalid fields of the heartbeat, which were ignored, with their faults. Missing if there are none. */
  ignored?: ProblemField[];
}

/**
 * Sign of life of a worker. It renews the leases of all tokens that it names, even if other fields are invalid.
 * Invalid fields are ignored, and the answer names them in `ignored`.
 */
export interface HeartbeatRequest {
  /** All claims for which no master has confirmed a result yet. */
  running: ReportedClaim[];
  /**
   * Number of further jobs that the worker would take. Only people see this number. Masters count the worker's
   * claims instead.
   */
  free: number;
  /**
   * Store time, rounded down, at which `running` was read. If an offer had ended by this time and is not in
   * `running`, the worker did not accept it. Its job then waits again without counting a loss. If this field is
   * omitted, the job waits again only when a heartbeat arrives more than a lease after the end of the offer.
   */
  as_of_ms?: number;
  /**
   * Number of jobs that the worker can run at the same time from now on. Send it if it differs from the registered
   * number, for example because the worker shares its slots between namespaces. A number that an operator has set
   * is an upper bound. If omitted, the number is unchanged.
   */
  max_jobs?: number | null;
  /**
   * True: the previous answer was `detached`, and the worker asks to continue its jobs. An answer without
   * `detached` permits this.
   */
  asks_to_continue?: boolean;
  /**
   * Proof of a running worker that its bearer token was replaced. Send it only after a 403 `foreign_worker`. It is
   * the hex HMAC-SHA256(secret, text). The text consists of `adopt`, the worker ID and the hex SHA-256 of the
   * bearer token, joined by line feeds. The worker then belongs to the new token.
   */
  proof?: string | null;
}

/** The gate to hold. If the gate does not exist, no other job is held back, but this job is still deferred. */
export interface HoldRequest {
  /** Name of the constraint. */
  constraint: string;
  /** Value of the constraint's key, which may be null. Omit it for a constraint without a key. */
  key?: unknown;
}

/** An event that happened during an attempt without ending it. */
export interface JobEvent {
  at: string;
  /**
   * continued: the worker was detached because it was silent. It then came back and continued the job. Future
   * releases may add values.
   */
  event: string;
  attempt: number;
  worker_id: string;
  message: string | null;
}

/** A predecessor of the job, and its result. */
export interface JobInput {
  /** UUID in lower case. Masters generate UUIDv7. */
  job_id: string;
  /** State of the predecessor. Null: the predecessor was deleted. */
  state: string | null;
  /** Result of the predecessor, as `GET /api/jobs/{job_id}/result` returns it. Null: `omitted` gives the reason. */
  result: unknown;
  /**
   * Reason why the result is not included. not_kept: there is no result. too_large: the results of all predecessors
   * share 1 MiB, and this result does not fit. Null: the result is included. Future releases may add values.
   */
  omitted: "too_large" | "not_kept" | null;
}

/** A job to enqueue. */
export interface JobRequest {
  /** Kind of job. It selects the handler. */
  name: string;
  /** Any value. In JSON, binary is {"$bin": base64}. */
  argument?: unknown;
  /** The lowest number runs first. */
  priority?: number;
  /** Maximum number of retries after failed runs. 0: never retry. */
  max_retry?: number;
  /** Keep the result so that it can be fetched. */
  keep_result?: boolean;
  /** Maximum run time in seconds. A longer run fails. */
  timeout?: number;
  retry?: RetryRequest | null;
  /** Run the job again when its worker was lost, even if max_retry is 0. */
  rerun_lost?: boolean;
  tags?: string[];
  headers?: Record<string, string>;
  /** Labels, each with its value. Only a worker that registered with all of them gets the job. */
  requires?: Record<string, string> | null;
  /**
   * Seconds from the push, by the clock of the store. After this time, the job is skipped if it still waits, even
   * for a retry. Cannot be combined with expires_at.
   */
  expires_s?: number | null;
  /**
   * ID chosen by the client. It makes the push safe to repeat for as long as the job is kept. Jobs of equal
   * priority run in the order of their IDs. Choose a UUIDv7 to run the oldest first.
   */
  id?: string | null;
  /**
   * Idempotency key: at most 200 bytes of UTF-8. A second push of the same name with the same key and content
   * creates no job. Its answer has the ID of the first job, even if the second push has another `id` or the first
   * job is gone. A second push with different content is refused with 409. Each token has its own keys.
   */
  key?: string | null;
  /** Seconds for which the key is remembered, from its first use. */
  key_ttl?: number;
  /** Earliest time to run the job. */
  run_at?: string | null;
  /** Seconds from now until the job may run. Cannot be combined with run_at. */
  delay?: number | null;
  /**
   * Time after which the job is skipped if it still waits, even for a retry. A push with a time in the past is
   * refused.
   */
  expires_at?: string | null;
  unique?: UniqueRequest | null;
  /** Cannot be combined with unique, delay or run_at. */
  debounce?: DebounceRequest | null;
  /**
   * The batch to which the job belongs. The batch must not be complete or canceled. If another job holds the
   * uniqueness key, that job keeps its own batch. If it takes the content of this push, it moves to this batch.
   */
  batch?: string | null;
  /**
   * Webhook to call when the job is over. It is called at least once, according to Standard Webhooks.
   * docs/notices.md shows its body and its signature.
   */
  notify?: NotifyRequest | null;
  /** Short form of `notify` with only this URL. Cannot be combined with `notify`. */
  notify_url?: string | null;
  /**
   * Predecessors of the job. It waits for them in the state awaiting_jobs. Cannot be combined with unique or
   * debounce.
   */
  after?: AfterRequest | null;
}

export type JobState =
  | "scheduled"
  | "ready"
  | "retrying"
  | "awaiting_jobs"
  | "running"
  | "awaiting_callback"
  | "succeeded"
  | "discarded"
  | "failed"
  | "canceled"
  | "skipped";

/** A job with its content and history. */
export interface JobView {
  /** UUID in lower case. Masters generate UUIDv7. */
  id: string;
  name: string;
  state: JobState;
  priority: number;
  /** Number of attempts so far. */
  attempt: number;
  /** Number of failed attempts that counted against max_retry. */
  failures: number;
  /** Number of workers that were lost while running the job. */
  losses: number;
  max_retry: number;
  timeout: number;
  keep_result: boolean;
  created_at: string;
  /** Time at which the job became or becomes due. */
  run_at: string | null;
  /** Start of the latest attempt. */
  started_at: string | null;
  finished_at: string | null;
  expires_at: string | null;
  /**
   * Reason why the job ended: error, timeout, undecodable, invalid_argument, lost, expired, dependency, superseded
   * or canceled.
   */
  cause: string | null;
  /** Worker of the latest attempt. */
  worker_id: string | null;
  tags: string[];
  attempts: AttemptView[];
  events: JobEvent[];
  /** Links to other systems, built from the setting `link_templates`. */
  links?: OutsideLink[];
  headers: Record<string, string>;
  /**
   * The argument as it was sent. Null if it is too large to show; see argument_bytes. A caller without the scope
   * read gets null here, and no attempts, events or headers.
   */
  argument: unknown;
  argument_bytes: number;
  /** True: the caller may not see job content. Argument, headers, error values and error messages are omitted. */
  argument_hidden: boolean;
  /** True: parts of the argument are replaced by `[redacted]`. Do not enqueue a copy of it. */
  argument_redacted: boolean;
  /**
   * Paths of values that people erased, such as `argument.email`. If the argument or the headers have lost a value,
   * the job cannot be retried.
   */
  erased?: string[];
  /** Labels that the worker must have. Null: any worker for the job's name may run the job. */
  requires?: Record<string, string> | null;
  /** True: parts of the headers are replaced by `[redacted]`. */
  headers_redacted: boolean;
  /** True: a result is kept. */
  has_result: boolean;
  /**
   * The result, as `GET /api/jobs/{job_id}/result` returns it. Viewing it here does not count as fetching it. Null
   * if no result is kept, or if the result is hidden or too large to show.
   */
  result: unknown;
  /** True: a result is kept, but the caller may not see it. */
  result_hidden: boolean;
  /** Names of the enabled constraints that apply to the job. Empty when the job is over. */
  constraints: string[];
  /** Null if the job has no uniqueness key. */
  unique?: UniqueView | null;
  /** Progress of the job. Null if no attempt has reported progress. */
  progress?: ProgressView | null;
  /** The steps (`ctx.step` of the Python SDK) that have ended so far, in this order. */
  steps?: StepView[];
  /** The definition that started the job. Null if a push created the job. */
  definition?: OriginView | null;
  /** The batch to which the job belongs. */
  batch?: string | null;
  /** The batch that started the job as its callback. Null if no batch started it. */
  callback_of?: CallbackOfView | null;
  /** Null if no webhook is called, or the caller may not see job content. */
  notify?: NotifyView | null;
  /** The jobs for which this job waits or waited. Null if it has no predecessors. */
  after?: AfterView | null;
  /** The first 100 jobs that wait or waited for this job. */
  dependents?: LinkedJob[];
  /** Number of all jobs that wait or waited for this job. */
  dependents_count?: number;
  /**
   * The effect that a retry would have on the jobs that were skipped because of this job. In the answer to a retry:
   * the effect of that retry. Null if the job is unfinished, has succeeded or has no dependents.
   */
  revives?: RevivalView | null;
  /**
   * The job that caused this job to be skipped, directly or through other jobs, and the state in which it ended.
   * Null if no other job caused this job to be skipped.
   */
  skipped_by?: LinkedJob | null;
}

/** A predecessor or a dependent of another job. */
export interface LinkedJob {
  /** UUID in lower case. Masters generate UUIDv7. */
  id: string;
  /** Null: the job is gone, or the caller may not see its state. */
  state: JobState | null;
}

/** The levels of log lines, the least important first. */
export type LogLevel = "debug" | "info" | "warning" | "error" | "critical";

/** The answer to log lines. */
export interface LogsAnswer {
  /** Number of lines of this call that are stored now, including lines that an earlier call stored. */
  accepted: number;
  /**
   * Number of lost lines, of any job: old lines that were removed because of a limit, and lines that the worker
   * left out.
   */
  dropped: number;
  /**
   * Jobs that the worker does not hold under the given tokens. Their lines are not stored. Send no more lines of
   * these jobs.
   */
  stale: string[];
  /**
   * The faults of the first invalid entries, at most 50. Lines of invalid entries are not stored. All other lines
   * are stored. Missing if all entries are valid. If no entry is valid, the answer is 422.
   */
  refused?: ProblemField[];
}

/** Counts of the batches nested in a batch. */
export interface NestedCounts {
  total: number;
  succeeded: number;
  /** Complete batches that did not succeed. */
  failed: number;
}

/**
 * The job is deferred because its work cannot begin yet. Each wait is longer than the previous one, from
 * `retry_after` up to `max_wait_s`.
 */
export interface NotReadyRequest {
  /** Longest wait in seconds. */
  max_wait_s: number;
  /**
   * Seconds after which a job that is still not ready fails with the cause `not_ready`. Null: the job waits without
   * a limit.
   */
  for_s?: number | null;
  /** Reason for people. */
  reason?: string;
}

/** The webhook that is called when the job is over. */
export interface NotifyRequest {
  /** http or https, without a user and without a fragment. */
  url: string;
  /** Final states for which the webhook is called. Default: all. */
  on?: ("succeeded" | "discarded" | "failed" | "canceled" | "skipped")[];
  /** True: the webhook contains the result. Requires keep_result. */
  with_result?: boolean;
}

/** The webhook that is called when the job is over. */
export interface NotifyView {
  /** Without its query. */
  url: string;
  /** The final states to report. */
  on: string[];
  with_result: boolean;
}

/** The treatment of a push if another job holds its key. */
export type OnConflict = "reject" | "existing" | "replace";

/** An open challenge. Only this answer contains the challenge's request ID. */
export interface OpenChallengeAnswer {
  /** Secret with which the outside system answers the challenge. Valid for this attempt. */
  request_id: string;
  /** Address at which the outside system posts its callback. */
  callback_url: string;
}

/** A challenge to open for a job that the worker runs. */
export interface OpenChallengeRequest {
  /** UUID in lower case. Masters generate UUIDv7. */
  job_id: string;
  token: string;
  /** Seconds to wait for the callbacks, counted from the report `challenged`. After that, the attempt fails. */
  timeout_s: number;
  /**
   * Random text that identifies this call: at least 192 random bits in base64. A repeated call with the same text
   * returns the same request ID and opens no second challenge. So a repeat or a late copy of the call does not make
   * the challenge void.
   */
  nonce?: string;
  /** Number of callbacks to wait for. The job continues when all of them have come. */
  expect?: number;
  /** A note for people about the purpose of the challenge, of at most 4 KiB. */
  meta?: unknown;
  signature?: SignatureRequest | null;
  /**
   * Form with which people answer the challenge, on a page at the challenge's address. The handler gets each answer
   * as a callback of type `application/json`, with `choice`, `comment`, `values`, `by` and `address`. Null: another
   * system answers.
   */
  form?: FormRequest | null;
  /**
   * People who may answer the form. link: everybody who has the address. users: everybody who has the address, is
   * logged in and may operate. With `users`, each person answers once, so `expect` is the number of people.
   */
  audience?: "link" | "users";
  /**
   * Seconds after the report `challenged`. Then `challenge_waiting` notices with the address of the page remind
   * people that nobody has answered. 0: at once. Null: never.
   */
  remind_after_s?: number | null;
}

/** The definition that started a job. */
export interface OriginView {
  name: string;
  /** The instant for which the job was started. */
  due_at: string;
}

/** A callback of an outside system, as it was received. */
export interface OutsideCallback {
  content_type: string;
  /** Binary. In JSON: {"$bin": base64}. */
  body: unknown;
  /** Store time (Unix ms) at which the callback arrived. */
  received_at_ms: number;
}

/** A link of a job to another system. */
export interface OutsideLink {
  label: string;
  url: string;
}

/** A job for which another job waits or waited. */
export interface PredecessorView {
  /** UUID in lower case. Masters generate UUIDv7. */
  id: string;
  /** Null: the job is gone, or the caller may not see its state. */
  state: JobState | null;
  /** True: the job still waits for it. */
  pending: boolean;
}

/** RFC 9457; at most 4 KiB. */
export interface Problem {
  type: string;
  title: string;
  status: number;
  detail: string;
  /**
   * Stable code for programs. docs/errors.md describes all codes. Future releases may add codes. Treat an unknown
   * code according to the status.
   */
  code: ProblemCode | (string & {});
  errors: ProblemField[];
  /** The job that holds the uniqueness key. Sent only with the codes not_unique and offer_under_way. */
  job_id?: string;
  /**
   * Position at which the part of the log in the store begins. Pass it as `after` to read that part without the
   * archive. Sent only with the code archive_unavailable, if the store still has part of the log.
   */
  stored_after?: number;
}

/**
 * The codes of problems. docs/errors.md describes all codes. `x-had-no-effect` lists the codes of status 503 that
 * prove that the request had no effect. After any other 503, the request may have had an effect.
 */
export type ProblemCode =
  | "action_over"
  | "address_refused"
  | "address_unresolved"
  | "address_unverified"
  | "admin_only"
  | "agents_off"
  | "already_expired"
  | "archive_damaged"
  | "archive_unavailable"
  | "argument_over_quota"
  | "argument_too_large"
  | "backlog_full"
  | "bad_base64"
  | "bad_ext"
  | "bad_host"
  | "bad_request_line"
  | "bad_signature"
  | "bad_timestamp"
  | "batch_complete"
  | "batch_over"
  | "body_too_large"
  | "calendar_exists"
  | "calendar_in_use"
  | "calendars_not_installed"
  | "callback_conflict"
  | "challenge_answered"
  | "challenge_over"
  | "changed_meanwhile"
  | "conflict"
  | "constraint_exists"
  | "content_hidden"
  | "cross_site"
  | "csrf"
  | "damaged"
  | "default_namespace"
  | "definition_exists"
  | "delivery_loop"
  | "duplicate_key"
  | "durability_unavailable"
  | "empty_body"
  | "error_too_large"
  | "first_must_be_admin"
  | "forbidden"
  | "foreign_worker"
  | "form_too_large"
  | "head_too_large"
  | "http_version_not_supported"
  | "id_taken"
  | "id_token_invalid"
  | "idempotency_key_reused"
  | "integer_out_of_range"
  | "internal"
  | "invalid"
  | "invalid_argument"
  | "invalid_cursor"
  | "job_awaiting_callback"
  | "job_awaiting_jobs"
  | "job_canceled"
  | "job_discarded"
  | "job_failed"
  | "job_ready"
  | "job_retrying"
  | "job_running"
  | "job_scheduled"
  | "job_skipped"
  | "job_succeeded"
  | "key_not_str"
  | "last_admin"
  | "local_only"
  | "log_open"
  | "login_denied"
  | "login_expired"
  | "login_failed"
  | "mail_off"
  | "masters_too_old"
  | "meta_too_large"
  | "method_not_allowed"
  | "more_than_at_most"
  | "move_record_damaged"
  | "move_refused"
  | "move_under_way"
  | "name_forbidden"
  | "namespace_closed"
  | "namespace_exists"
  | "namespace_faulted"
  | "namespace_full"
  | "namespace_has_data"
  | "namespace_moving"
  | "namespace_not_empty"
  | "namespace_open"
  | "namespace_rate"
  | "namespace_starting"
  | "namespace_tag_taken"
  | "no_form"
  | "no_login_name"
  | "no_login_provider"
  | "no_other_master"
  | "no_public_url"
  | "no_role"
  | "no_session"
  | "no_such_poll"
  | "not_a_map"
  | "not_a_user"
  | "not_acceptable"
  | "not_an_array"
  | "not_found"
  | "not_leader"
  | "not_moving"
  | "not_on_cluster"
  | "not_pulling"
  | "not_unique"
  | "notice_exists"
  | "number_out_of_range"
  | "offer_under_way"
  | "other_store"
  | "outcome_unknown"
  | "overloaded"
  | "payload_too_large"
  | "poll_replaced"
  | "precondition_failed"
  | "predecessor_over"
  | "provider_unavailable"
  | "push_over_quota"
  | "rate_limited"
  | "receipt_deadline"
  | "result_too_large"
  | "retried_before"
  | "settings_changing"
  | "stale_token"
  | "started_by_events"
  | "store_full"
  | "store_unavailable"
  | "store_unfit"
  | "target_exists"
  | "target_name_taken"
  | "target_too_long"
  | "token_expired"
  | "too_deep"
  | "too_large"
  | "too_many_actions"
  | "too_many_agent_calls"
  | "too_many_calendars"
  | "too_many_callbacks"
  | "too_many_constraints"
  | "too_many_definitions"
  | "too_many_fireworq"
  | "too_many_headers"
  | "too_many_items"
  | "too_many_logins"
  | "too_many_matches"
  | "too_many_namespaces"
  | "too_many_nodes"
  | "too_many_notices"
  | "too_many_parts"
  | "too_many_previews"
  | "too_many_registrations"
  | "too_many_sources"
  | "too_many_streams"
  | "too_many_targets"
  | "too_many_tokens"
  | "too_many_users"
  | "trailing_bytes"
  | "truncated"
  | "unauthorized"
  | "unchecked_argument"
  | "unknown_action"
  | "unknown_batch"
  | "unknown_calendar"
  | "unknown_challenge"
  | "unknown_constraint"
  | "unknown_contract"
  | "unknown_definition"
  | "unknown_delivery"
  | "unknown_event"
  | "unknown_failure_group"
  | "unknown_incident"
  | "unknown_job"
  | "unknown_key_value"
  | "unknown_method"
  | "unknown_name"
  | "unknown_namespace"
  | "unknown_notice"
  | "unknown_predecessor"
  | "unknown_session"
  | "unknown_slot_rule"
  | "unknown_target"
  | "unknown_token"
  | "unknown_user"
  | "unknown_worker"
  | "unparsable"
  | "unserved_name"
  | "unsupported_media_type"
  | "unsupported_transfer_encoding"
  | "user_exists"
  | "value_erased"
  | "webhooks_off"
  | "worker_detached"
  | "wrong_password";

/** One invalid field: its path, and its fault. */
export interface ProblemField {
  loc: (string | number)[];
  msg: string;
}

/** Progress of a job, for people. */
export interface ProgressRequest {
  /** Share of the work that is done, from 0 to 1. Null: unknown. */
  fraction?: number | null;
  message?: string;
}

/** The progress of a job that its worker last reported. */
export interface ProgressView {
  /** 0 to 1. Null: unknown. */
  fraction: number | null;
  /** Null if the caller may not see job content. */
  message: string | null;
  at: string;
}

/**
 * The worker's answer to a push. Every job of the push is in one of the lists. If the worker has seen a token
 * before, it accepts the job but does not start it again. Results follow later.
 */
export interface PushAnswer {
  accepted: string[];
  rejected: Rejected[];
}

/** A result that the master did not accept, and its fault. */
export interface RefusedResult {
  /** Position in `results` of the call. */
  index: number;
  /** Problem code. */
  code: string;
  detail: string;
  errors: ProblemField[];
}

/** Confirmation of a registration. From this time on, jobs may arrive, and the master expects heartbeats. */
export interface RegisterAnswer {
  /** ID of the worker. Valid until the worker unregisters or is forgotten. */
  worker_id: string;
  /** Epoch of the newest leadership. 0 before the first election. */
  epoch: number;
  /** Store time (Unix ms), the only clock for offers and leases. */
  store_time_ms: number;
  heartbeat_interval_s: number;
  /** Duration of a lease, counted from the last heartbeat that named the lease's token. */
  lease_s: number;
}

/** Registration of a worker. */
export interface RegisterRequest {
  /**
   * URL at which masters reach the worker. Null: the worker pulls. The field is required so that nobody forgets it.
   */
  url: string | null;
  names: string[];
  max_jobs: number;
  node_id?: string;
  pid?: number;
  labels?: Record<string, string>;
  version?: string;
  /**
   * Secret that the worker chose. Its UTF-8 bytes are the key of all signatures. A worker that pulls must also send
   * a secret, although nothing is signed for it.
   */
  secret: string;
  /**
   * Name of the current boot of this machine. Send it only if the process holds a lock that every worker at this
   * `url` must hold. If the previous worker at the URL sent the same name, that worker must have ended, so its jobs
   * can run again at once. Otherwise, they can run again when their leases end.
   */
  place?: string;
  /**
   * Contracts of all or some of the names. Masters of release 0.2 refuse a registration with this field. In that
   * case, register without this field.
   */
  contracts?: Record<string, ContractRequest>;
}

/** An offer that the worker refuses. The job was not started. */
export interface Rejected {
  /** UUID in lower case. Masters generate UUIDv7. */
  job_id: string;
  reason: "busy" | "unknown_name" | "draining" | "stale_epoch" | "too_late" | "duplicate";
  /** Seconds until the worker wants offers again. */
  retry_after?: number | null;
}

/** A claim with a lease to renew, and new information about the claim's job. */
export interface ReportedClaim {
  /** UUID in lower case. Masters generate UUIDv7. */
  job_id: string;
  token: string;
  progress?: ProgressRequest | null;
  /**
   * Checkpoint: binary of at most 16 KiB, in JSON `{"$bin": base64}`. Any other value is stored as its MessagePack
   * encoding. The next attempt, on any worker, gets the binary in the field `checkpoint` of its `Dispatch`, so that
   * it can continue where this attempt stops. Masters do not interpret the binary. `worker_sdk` writes MessagePack.
   * If the heartbeat is answered, the checkpoint is saved, with these exceptions: `cancel` or `lost` contains the
   * claim, or `ignored` names the checkpoint.
   */
  checkpoint?: unknown;
  /**
   * Number of this report. It must grow with each heartbeat that has `progress` or `checkpoint` of the claim. A
   * master that stood still may process a heartbeat long after the worker stopped waiting for the answer. Such a
   * report is ignored if a later report is already saved. If `seq` is omitted, the report replaces any other
   * report.
   */
  seq?: number | null;
}

/** The end of an attempt, as its worker reports it. */
export type ResultItem =
  | SuccessItem
  | FailureItem
  | DeferredItem
  | HandedBackItem
  | CanceledItem
  | DiscardedItem
  | ChallengedItem;

/** The result of a job that is over. */
export type ResultView = SuccessView | FailureView;

/**
 * `accepted`: the report was accepted, now or in an earlier call. `stale`: the token is no longer valid, and
 * nothing changed.
 */
export interface ResultsAnswer {
  accepted: string[];
  stale: string[];
  /**
   * Invalid results. They appear in neither `accepted` nor `stale`, and do not affect the valid results. Missing if
   * all results are valid. If no result of the call is valid, the answer is the problem of the first result
   * instead.
   */
  refused?: RefusedResult[];
  /**
   * Jobs for the slots that the report freed, if the worker sent `JQ-Jobs-After`. Check each job in the same way as
   * a pushed job. Report `handed_back` for a job that you do not take. Missing if there are none.
   */
  jobs?: Dispatch[];
  /** Epoch of the leadership that offers `jobs`. Missing if `jobs` is missing. */
  epoch?: number;
  /** Store time (Unix ms) at which `jobs` were claimed. Missing if `jobs` is missing. */
  store_time_ms?: number;
}

/** Backoff: the wait before the n-th retry is min(max_s, base_s · factor^(n−1)), with full jitter. */
export interface RetryRequest {
  base_s?: number;
  factor?: number;
  max_s?: number;
  jitter?: boolean;
}

/** The effect of a retry on the jobs that were skipped because of the retried job. */
export interface RevivalView {
  /** Number of skipped jobs that wait again after the retry. */
  jobs: number;
  /** Number of skipped jobs that stay skipped, because they also need other jobs. */
  held: number;
  /** Number of dependent jobs that were removed. They will not run. */
  gone: number;
  /** False: there are more jobs than were examined. */
  is_complete: boolean;
}

/** A claim with a result that no master has confirmed yet. */
export interface RunningClaim {
  /** UUID in lower case. Masters generate UUIDv7. */
  job_id: string;
  token: string;
}

/** The signature that a callback must bear: HMAC-SHA256 of its body. */
export interface SignatureRequest {
  /** Header with the signature. */
  header: string;
  /** Key of the signature, in UTF-8. The store keeps it until the attempt is over. */
  secret: string;
  /** Text in front of the signature. */
  prefix?: string;
  encoding?: "hex" | "base64";
}

/** A step that has ended. Later attempts of the job do not run it again. */
export interface StepView {
  /** Null if the caller may not see job content. */
  name: string | null;
  /** Time at which the step ended, by the clock of its worker. */
  at: string;
  took_s: number;
}

/** The handler returned. */
export interface SuccessItem {
  /** UUID in lower case. Masters generate UUIDv7. */
  job_id: string;
  token: string;
  finished_at: string;
  used?: Record<string, number> | null;
  /**
   * Time of the store at which the system that a constraint protects had counted the attempt's last call. The job's
   * start then counts in each rate for a full period after this time. If the field is omitted, the start counts for
   * a full period after the claim, although the call may have reached that system later.
   */
  called_at_ms?: number | null;
  type: "success";
  /** Any value. In JSON, binary is {"$bin": base64}. */
  result: unknown;
}

/** The result of a job that succeeded. */
export interface SuccessView {
  type: "success";
  /** End of the run, as the worker reported it. */
  finished_at: string;
  /** Any value. In JSON, binary is {"$bin": base64}. */
  result: unknown;
}

/** A key that the job holds. Meanwhile, no other job of the same name can take the key. */
export interface UniqueRequest {
  /**
   * Uniqueness key: text of at most 200 bytes. Only one job of the name can hold it. Null: the argument is the key.
   */
  key?: string | null;
  /**
   * How long the job holds the key. until_start: until the job first starts. until_finished: until the job ends,
   * after any retries. window: for ttl_s seconds after the push, or until the job ends if it ends later.
   */
  scope?: UniqueScope;
  /** Length of the window in seconds. Required with the scope window, refused with any other scope. */
  ttl_s?: number | null;
  /**
   * The effect of a push while another job holds the key. reject: the answer is 409 not_unique, with the job_id of
   * that job. existing: the answer is 200 with the ID of that job and duplicate: true. replace: that job takes the
   * content of this push, and the answer is 200 with its ID and replaced: true. If that job has already started,
   * replace acts like existing.
   */
  on_conflict?: OnConflict;
}

/** How long a job holds its key: until its first start, until its end, or at least for a time after its push. */
export type UniqueScope = "until_start" | "until_finished" | "window";

/** The uniqueness key that the job takes while it is unfinished. */
export interface UniqueView {
  /** The key as pushed, or `[hidden]` if the caller may not see job content. Null: the argument is the key. */
  key: string | null;
  scope: UniqueScope;
  /** End of the window. */
  until: string | null;
  on_conflict: OnConflict;
  /** Set if the job is debounced. */
  debounce: DebounceView | null;
}

/** Current state of the worker. */
export interface WorkerStatus {
  worker_id: string;
  running: RunningClaim[];
  free: number;
  max_jobs: number;
  names: string[];
  draining: boolean;
}

/**
 * Codes of status 503 that prove that the request had no effect. After any other 503, the request may have had an
 * effect.
 */
export const NO_EFFECT_CODES: ReadonlySet<string> = new Set<ProblemCode>([
  "durability_unavailable", "namespace_closed", "namespace_faulted", "namespace_moving", "namespace_starting",
  "overloaded", "store_full", "store_unavailable", "store_unfit", "too_many_streams",
]);
