/** The ledger: what the jobs say became of each order, beside what the shop has in its book. */

import type { Entry } from "./shop.js";

/** What a job says became of its order: a receipt, or the code with which it failed. */
export interface Outcome {
  readonly order: number;
  readonly jobId: string;
  readonly receipt?: string;
  readonly code?: string;
}

/** Returns what does not balance, in words. Empty: all does. */
export function faultsOf(outcomes: readonly Outcome[], book: Iterable<Entry>): string[] {
  const entries = new Map([...book].map((entry) => [entry.key, entry]));
  const faults: string[] = [];
  for (const { order, jobId, receipt, code } of outcomes) {
    const entry = entries.get(jobId);
    entries.delete(jobId);
    if (entry?.order !== order) faults.push(`order ${order} is not in the book`);
    else if ("receipt" in entry.answer && entry.answer.receipt !== receipt) faults.push(`order ${order} was carried out, and its job has ${String(code)}`);
    else if ("error" in entry.answer && entry.answer.error !== code) faults.push(`order ${order} was refused, and its job has ${String(receipt ?? code)}`);
  }
  for (const { order } of entries.values()) faults.push(`order ${order} is in the book, and nobody placed it`);
  return faults;
}
