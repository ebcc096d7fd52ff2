/** Counts jobs by name and kind of error, for people who are about to act on many jobs. */

/** @typedef {{name: string, error: string, count: number}} ErrorKind `error`: empty for jobs without an error. */

/**
 * @param {{name: string, error?: string | null}[]} jobs
 * @returns {ErrorKind[]} The kinds, the most frequent first. Errors that differ only in their numbers are of one kind.
 */
export function errorKinds(jobs) {
  /** @type {Map<string, ErrorKind>} */
  const kinds = new Map();
  for (const { name, error: text } of jobs) {
    const error = (text ?? "").replace(/\d+/g, "<n>");
    const key = JSON.stringify([name, error]);
    const kind = kinds.get(key) ?? { name, error, count: 0 };
    kinds.set(key, { ...kind, count: kind.count + 1 });
  }
  return [...kinds.values()].sort((one, other) => other.count - one.count);
}
