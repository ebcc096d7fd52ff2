/** Exports the jobs that a filter selects to a file: CSV for spreadsheets, JSON for programs. */
import { get, toJson } from "../core/api.js";

/** @typedef {import("../../answers").Schemas["ListedJob"]} ListedJob */

export const MOST = 10_000;
const PAGE = 500;
const FIELDS = /** @type {const} */ ([
  "id",
  "name",
  "state",
  "priority",
  "attempt",
  "failures",
  "created_at",
  "run_at",
  "started_at",
  "finished_at",
  "cause",
  "error",
  "argument_excerpt",
  "worker_id",
  "worker_name",
  "tags",
]);

/**
 * Return a cell that no spreadsheet mistakes for a formula.
 * @param {unknown} value
 */
export function csvCell(value) {
  const text =
    value === null || value === undefined ? "" : Array.isArray(value) ? value.join(" ") : String(value);
  const safe = typeof value === "string" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** @param {ListedJob[]} jobs */
export const csvOf = (jobs) =>
  [FIELDS, ...jobs.map((job) => FIELDS.map((field) => job[field]))]
    .map((row) => row.map(csvCell).join(","))
    .join("\r\n") + "\r\n";

/**
 * Load up to MOST jobs, and let the browser save them as a file.
 * @param {"csv" | "json"} kind
 * @param {Record<string, string>} filter
 * @param {string} order
 * @param {(count: number) => void} onProgress
 * @returns {Promise<{count: number, isCut: boolean}>}
 */
export async function exportJobs(kind, filter, order, onProgress) {
  /** @type {ListedJob[]} */
  let jobs = [];
  /** @type {string | undefined} */
  let cursor;
  do {
    const page = await get("api/jobs", {
      ...filter,
      order,
      cursor,
      include: "error,argument,worker",
      limit: Math.min(PAGE, MOST - jobs.length),
    });
    jobs = [...jobs, ...page.jobs];
    cursor = page.next_cursor ?? undefined;
    onProgress(jobs.length);
  } while (cursor && jobs.length < MOST);
  const text = kind === "csv" ? csvOf(jobs) : toJson(jobs, 2);
  const url = URL.createObjectURL(
    new Blob([text], { type: kind === "csv" ? "text/csv" : "application/json" }),
  );
  const link = document.createElement("a");
  link.href = url;
  link.download = `jobs-${new Date().toISOString().slice(0, 19).replaceAll(":", "")}.${kind}`;
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
  return { count: jobs.length, isCut: cursor !== undefined };
}
