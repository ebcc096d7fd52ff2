/** Links to workers by their names, for pages that know only their IDs. */
import { Problem, get } from "../core/api.js";
import { html } from "../core/lib.js";
import { useResource } from "../core/resource.js";
import { href } from "../core/router.js";
import { visible } from "../core/text.js";
import { Id } from "../ui/formats.js";
import { nameOf } from "./states.js";

// Maximum number of workers whose names are looked up. Each name takes a request.
const MAX_ASKED = 8;

/** @param {{id: string, name: string | null | undefined}} props `name`: its machine and process; empty while it is not known. */
export function WorkerLink({ id, name }) {
  const address = href("workers", { id });
  return name
    ? html`<a href=${address} title=${visible(`${name} · ${id}`)}>${visible(name)}</a>`
    : html`<${Id} id=${id} href=${address} />`;
}

/**
 * @param {string[]} ids
 * @returns {Map<string, string>} The names of the first of these workers, by ID. Workers that are no longer registered
 *   are left out.
 */
export function useWorkerNames(ids) {
  const asked = [...new Set(ids)].slice(0, MAX_ASKED);
  const { data } = useResource(
    (signal) => Promise.all(asked.map((id) => entryOf(id, signal))),
    [asked.join()],
    {
      everyMs: 60_000,
    },
  );
  return new Map(data ?? []);
}

/** @param {string} id @param {AbortSignal} signal @returns {Promise<[string, string]>} The ID and the name, or "". */
async function entryOf(id, signal) {
  try {
    const worker = await get(`api/workers/${encodeURIComponent(id)}`, {}, signal);
    return [id, worker.node_id ? nameOf(worker) : ""];
  } catch (error) {
    // The worker is gone, or this user may not see it. Show its ID instead.
    if (!(error instanceof Problem)) throw error;
    return [id, ""];
  }
}
