/** The jobs that a bulk action would change, by name and error. People who confirm the action see more than a number. */
import { get } from "../core/api.js";
import { number, t } from "../core/i18n.js";
import { html } from "../core/lib.js";
import { useResource } from "../core/resource.js";
import { admits } from "../core/states.js";
import { Text } from "../ui/formats.js";
import { errorKinds } from "./error_kinds.js";

/** @typedef {import("../../answers").Schemas["JobActionPreview"]} JobActionPreview */
/** @typedef {import("../core/states.js").Action} Action */
/** @typedef {{name: string, state: string, error?: string | null}} Touched */

const MAX_READ = 100;
const MAX_SHOWN = 6;

/** @param {Record<string, unknown>} filter The filter of an action. @returns {Record<string, string>} The same filter for the list of jobs. */
const queryOf = (filter) =>
  Object.fromEntries(
    Object.entries(filter).map(([key, value]) => [
      key,
      typeof value === "object" ? JSON.stringify(value) : String(value),
    ]),
  );

/** @param {{action: Action, filter: Record<string, unknown> | null, dry: JobActionPreview}} props `filter`: null for selected jobs. */
export function ActionKinds({ action, filter, dry }) {
  const query = filter && queryOf(filter);
  const { data } = useResource(
    (signal) =>
      query
        ? get("api/jobs", { ...query, include: "error", limit: MAX_READ }, signal)
        : Promise.resolve(null),
    [JSON.stringify(query)],
  );
  if (query && !data) return html`<p class="muted">${t("loading")}</p>`;
  /** @type {Touched[]} */
  const touched = data ? data.jobs.filter((job) => admits(job.state, action)) : dry.examples;
  const kinds = errorKinds(touched);
  if (kinds.length === 0) return null;
  const rest = kinds.slice(MAX_SHOWN).reduce((sum, kind) => sum + kind.count, 0);
  return html`<div class="examples">
      ${dry.count > touched.length && html`<p class="muted">${t("action.kinds.of", { count: touched.length })}</p>`}
      <ul class="plain">
        ${kinds.slice(0, MAX_SHOWN).map(
          (kind) =>
            html`<li key=${`${kind.name} ${kind.error}`}>
                <span class="num">${number(kind.count)} ×</span> <strong><${Text} value=${kind.name} max=${60} /></strong>${" "}
                <span class="muted"><${Text} value=${kind.error} max=${120} /></span>
              </li>`,
        )}
        ${rest > 0 && html`<li class="muted">${t("action.kinds.rest", { count: rest })}</li>`}
      </ul>
    </div>`;
}
