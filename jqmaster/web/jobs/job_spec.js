/** A job in the form of a new push, and whether all of it is shown. */

/** @typedef {import("../../answers").Schemas["JobView"]} JobView */

/**
 * Return whether a part of the job's content is hidden, so that a copy would be a different job.
 * @param {JobView} job
 */
export function isIncomplete(job) {
  return job.argument_hidden || isArgumentIncomplete(job) || job.headers_redacted;
}

/** @param {JobView} job */
export const isArgumentIncomplete = (job) =>
  job.argument_redacted || isTooLarge(job.argument, job.argument_bytes) || isSealed(job.argument);

/**
 * Return whether a value is sealed. A sealed value can be opened only for its own job.
 * @param {unknown} value
 * @returns {value is {sealed_with: string, sealed: unknown}}
 */
export const isSealed = (value) =>
  value !== null &&
  typeof value === "object" &&
  "sealed_with" in value &&
  typeof value.sealed_with === "string" &&
  "sealed" in value;

/**
 * @param {unknown} value
 * @param {number} bytes
 */
export const isTooLarge = (value, bytes) => value === null && bytes > 1;

/**
 * Return the job in the form of a push. Call this only if the whole content of the job is shown.
 * @param {JobView} job
 */
export function specOf(job) {
  return {
    name: job.name,
    argument: job.argument,
    ...(job.priority !== 0 && { priority: job.priority }),
    max_retry: job.max_retry,
    timeout: job.timeout,
    ...(job.keep_result && { keep_result: true }),
    ...(job.tags.length && { tags: job.tags }),
    ...(Object.keys(job.headers).length && { headers: job.headers }),
    ...(job.requires && { requires: job.requires }),
  };
}

/** @param {JobView} job @returns {object} The fields of a push that make such a job unique, or debounce it. */
export function uniqueOf({ unique, created_at }) {
  if (!unique) return {};
  const key = unique.key !== null && { key: unique.key };
  if (unique.debounce) {
    const { wait_s, max_s } = unique.debounce;
    return { debounce: { ...key, wait_s, ...(max_s !== null && { max_s }) } };
  }
  const { scope, on_conflict } = unique;
  const ttl_s = unique.until && (Date.parse(unique.until) - Date.parse(created_at)) / 1000;
  return { unique: { ...key, scope, on_conflict, ...(scope === "window" && { ttl_s }) } };
}
