/** Splits any number of jobs into the bodies of bulk calls. */

import { encode, encodeList } from "../wire/msgpack.js";
import type { Job } from "../tasks/job.js";
import type { ReadyJob } from "./backend.js";

const MAX_CHUNK_JOBS = 1_000;
const MAX_CHUNK_BYTES = 4 * 1024 * 1024;
/** Maximum number of jobs in a call that is not divided. The master limits the bytes of its body. */
const MAX_WHOLE_JOBS = 10_000;

interface Part {
  readonly job: ReadyJob;
  readonly bytes: Uint8Array;
}

/** The body of one call, and the jobs in it. */
export interface Chunk {
  readonly ids: readonly string[];
  readonly keyed: ReadonlySet<number>;
  readonly body: Uint8Array<ArrayBuffer>;
}

/** Returns whether a master may answer with the ID of another job. */
export function mayBeAnother(job: ReadyJob): boolean {
  return job.key !== undefined || job.unique !== undefined || job.debounce !== undefined;
}

/**
 * Yields the bodies of calls, each as large as possible.
 *
 * @throws RangeError for too many jobs in a call that is not divided.
 */
export function* chunksOf(jobs: Iterable<Job>, inOneCall: boolean): Generator<Chunk> {
  let [parts, size]: [Part[], number] = [[], 0];
  for (const { request: job } of jobs) {
    const bytes = encode(job);
    if (inOneCall && parts.length === MAX_WHOLE_JOBS) throw new RangeError(`one call takes at most ${MAX_WHOLE_JOBS} jobs`);
    if (!inOneCall && parts.length > 0 && (parts.length === MAX_CHUNK_JOBS || size + bytes.length > MAX_CHUNK_BYTES)) {
      yield chunkOf(parts);
      [parts, size] = [[], 0];
    }
    parts.push({ job, bytes });
    size += bytes.length;
  }
  if (parts.length > 0) yield chunkOf(parts);
}

function chunkOf(parts: readonly Part[]): Chunk {
  const keyed = new Set(parts.flatMap(({ job }, index) => (mayBeAnother(job) ? [index] : [])));
  return { ids: parts.map(({ job }) => job.id), keyed, body: encodeList("jobs", parts.map(({ bytes }) => bytes)) };
}
