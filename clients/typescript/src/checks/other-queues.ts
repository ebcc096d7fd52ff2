/** Names of other job queues and of the Python SDK, and the corresponding names here. They are used only in errors. */

/** For each option, in camelCase, the options that correspond to it. The error suggests the first one that the call takes. */
const OPTIONS: Readonly<Record<string, readonly string[]>> = {
  address: ["master"],
  apiKey: ["token"],
  attempts: ["maxRetry"],
  backoff: ["retry"],
  broker: ["master"],
  concurrency: ["maxJobs"],
  countdown: ["delay"],
  dependsOn: ["after"],
  eta: ["runAt"],
  expires: ["expiresS", "expiresAt"],
  functions: ["tasks"],
  handlers: ["tasks"],
  host: ["master"],
  idempotencyKey: ["key"],
  isAtomic: ["inOneCall"],
  jobId: ["id"],
  jobs: ["tasks"],
  labels: ["requires"],
  maxAttempts: ["maxRetry"],
  maxWorkers: ["maxJobs"],
  prefetch: ["maxJobs"],
  queue: ["requires"],
  resultTtl: ["keepResult"],
  retries: ["maxRetry"],
  server: ["master"],
  storeResult: ["keepResult"],
  taskId: ["id"],
  timeLimit: ["timeout"],
  timeout: ["wait", "answerWithin"],
  ttl: ["expiresS"],
  url: ["master"],
  webhook: ["notifyUrl"],
};

/** Options with values that differ in meaning from the values of the other queue's option. */
const DIFFERENCES: Readonly<Record<string, string>> = {
  attempts: " It does not count the first attempt.",
  maxAttempts: " It does not count the first attempt.",
  queue: ' There are no queues: any worker with a task of the name of the job may run it. requires: { gpu: "1" } leaves only workers with that label.',
};

const MIN_ALIKE = 0.75;

/**
 * Returns " (did you mean …?)"; an empty text if no known name resembles `name`.
 *
 * @param name A name that is not known, in camelCase.
 * @param ofJobs The options of jobs, if they belong elsewhere.
 */
export function meantBy(name: string, known: readonly string[], ofJobs: readonly string[] = []): string {
  const candidates = [name, ...(Object.hasOwn(OPTIONS, name) ? (OPTIONS[name] ?? []) : [])];
  const meant = candidates.find((one) => known.includes(one));
  if (meant !== undefined) return ` (did you mean ${meant}?${Object.hasOwn(DIFFERENCES, name) ? (DIFFERENCES[name] ?? "") : ""})`;
  const ofJob = candidates.find((one) => ofJobs.includes(one));
  if (ofJob !== undefined) return ` (an option of jobs: give ${ofJob} to the task, or to its method with)`;
  const [best] = known.map((one) => ({ one, alike: alike(name, one) })).sort((a, b) => b.alike - a.alike);
  return best !== undefined && best.alike >= MIN_ALIKE ? ` (did you mean ${best.one}?)` : "";
}

/**
 * Makes methods of other queues say which method is meant here.
 *
 * @param of The class. Its own methods stay as they are.
 * @param methods The method to call here, by its name elsewhere.
 */
export function suggestMethods(of: { readonly prototype: object; readonly name: string }, methods: Readonly<Record<string, string>>): void {
  for (const [name, meant] of Object.entries(methods)) {
    if (name in of.prototype) continue;
    const value = () => {
      throw new TypeError(`${of.name} has no ${name}: did you mean ${meant}?`);
    };
    Object.defineProperty(of.prototype, name, { value, configurable: true });
  }
}

/** Returns how alike two names are, from 0 to 1: the fraction of letters that they have in the same order. */
function alike(one: string, other: string): number {
  let row = new Array<number>(other.length + 1).fill(0);
  for (const letter of one.toLowerCase()) {
    const next = [0];
    for (let index = 0; index < other.length; index++) {
      const same = other[index]?.toLowerCase() === letter;
      next.push(same ? (row[index] ?? 0) + 1 : Math.max(next[index] ?? 0, row[index + 1] ?? 0));
    }
    row = next;
  }
  return (2 * (row[other.length] ?? 0)) / (one.length + other.length);
}
