/** IDs of jobs and batches: UUIDv7. They sort by time and, within a process, by the order in which they were made. */

import { randomBytes } from "node:crypto";

const COUNT_BITS = 26;
const LOWER_BITS = 14;

// The count begins in the lower half, so that it rarely overflows within a millisecond.
let count = randomBytes(4).readUInt32BE() % 2 ** (COUNT_BITS - 1);
let lastMs = 0;

/**
 * Returns a new ID for a job or a batch: a UUIDv7 that no other process makes. A push with such an ID can be repeated
 * safely.
 *
 * @example
 * ```ts
 * const id = newId();
 * await resize.with({ id }).enqueue({ photoId: 42 });
 * await resize.with({ id }).enqueue({ photoId: 42 }); // the same job
 * ```
 */
export function newId(): string {
  count += 1;
  if (count >= 2 ** COUNT_BITS) {
    // Continuing in the next millisecond keeps the IDs in order.
    count = 0;
    lastMs += 1;
  }
  // The clock may have been set back.
  lastMs = Math.max(lastMs, Date.now());
  const time = hex(lastMs, 12);
  const upper = hex(0x7000 | (count >> LOWER_BITS), 4);
  const lower = hex(0x8000 | (count & (2 ** LOWER_BITS - 1)), 4);
  return `${time.slice(0, 8)}-${time.slice(8)}-${upper}-${lower}-${randomBytes(6).toString("hex")}`;
}

function hex(value: number, digits: number): string {
  return value.toString(16).padStart(digits, "0");
}
