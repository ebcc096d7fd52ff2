/** The values of a constraint's key: how many jobs each lets start, and its own limits and pauses. */
import { get, post, toJson } from "../core/api.js";
import { ValueLimits } from "./editor.js";
import { number, t } from "../core/i18n.js";
import { html, useState } from "../core/lib.js";
import { PER_VALUE, limitTexts, limitsOf } from "./limits.js";
import { useResource } from "../core/resource.js";
import { PauseButton } from "./pause_dialog.js";
import { visible } from "../core/text.js";
import { Button, ErrorBox } from "../ui/controls.js";
import { attempt } from "../ui/dialogs.js";
import { FilterInput } from "../ui/filters.js";
import { Badge, Text, Time, nowMs } from "../ui/formats.js";

/** @typedef {import("../../answers").Schemas["ConstraintDetail"]} Constraint */
/** @typedef {import("../../answers").Schemas["KeyUsageView"]} KeyUsage */

/** @typedef {import("../../answers").Schemas["UsageView"]} Usage */

/** If a gate opens sooner than this, the time until then is not shown, because nobody could read it. */
const SOON_MS = 1000;

/**
 * @param {{one: Constraint, path: `api/constraints/${string}`, mayOperate: boolean, onDone: () => Promise<void>}} props `one`: the constraint, which has a key.
 */
export function KeyValues({ one, path, mayOperate, onDone }) {
  const [asked, setAsked] = useState("");
  const [limiting, setLimiting] = useState(/** @type {KeyUsage | null} */ (null));
  const found = useResource((signal) => askFor(path, asked, signal), [path, asked], {
    events: ["constraints", "jobs"],
    leastMs: 2000,
    everyMs: 5000,
  });
  // Keep rows that may match until the answer arrives: the user may be about to press a button in such a row.
  const likely = () => one.top_keys.filter((key) => toJson(key.value).includes(asked));
  const keys = asked ? (found.data ?? likely()) : one.top_keys;
  const done = async () => {
    await Promise.all([onDone(), found.reload()]);
  };
  return html`<section class="card">
      <h2>
        ${t("constraints.top_keys")} ${
          one.usage.keys !== null && html`<span class="muted num">${number(one.usage.keys)}</span>`
        }
      </h2>
      ${
        one.values_hidden
          ? html`<p class="muted">${t(mayOperate ? "constraints.values_redacted" : "constraints.values_hidden")}</p>`
          : html`<${FilterInput}
              label=${t("constraints.ask_value")} hint=${t("constraints.ask_value.hint")} maxlength="1024"
              value=${asked} onChange=${setAsked} />`
      }
      <${ErrorBox} problem=${asked ? found.problem : null} />
      ${
        keys.length === 0
          ? html`<p class="muted">${t(asked && found.isLoading ? "loading" : "constraints.no_keys")}</p>`
          : html`<ul class="plain keys-list">
              ${keys.map(
                (value, at) =>
                  html`<${ValueRow}
                      key=${value.id ?? at} one=${one} value=${value} path=${path} mayOperate=${mayOperate}
                      onLimit=${() => setLimiting(value)} onDone=${done} />`,
              )}
            </ul>`
      }
      ${
        limiting &&
        html`<${ValueLimits} shown=${limiting} path=${path} onClose=${() => setLimiting(null)} onDone=${done} />`
      }
    </section>`;
}

/**
 * @param {{one: Constraint, value: KeyUsage, path: `api/constraints/${string}`, mayOperate: boolean, onLimit: () => void,
 *   onDone: () => Promise<void>}} props
 */
function ValueRow({ one, value, path, mayOperate, onLimit, onDone }) {
  const limits = limitTexts({ ...value.limits, max_backlog: null }, one.weight?.unit).join(" · ");
  const closed = closedBy(value);
  const opensLater = value.next_opening && Date.parse(value.next_opening) > nowMs() + SOON_MS;
  return html`<li>
      <div class="row">
        <${Badge} kind=${value.is_open ? "ok" : "warn"}>
          ${t(value.is_open ? "why.passes" : "why.closed")}
        <//> <strong><${Text} value=${value.value} max=${80} /></strong>
        <span class="muted">${limits || t("constraints.no_limit")}</span>
        ${
          closed &&
          html`<span class="closed-by">
              ${closed}
              ${opensLater && html` · ${t("why.opens")} <${Time} at=${value.next_opening} isNext />`}
            </span>`
        }
        ${value.limits.paused && html` <${Badge} kind="warn">${t("enqueue.paused")}<//>`}
      </div>
      <div class="row">
        <span class="num">
          ${t("constraints.key_usage", { waiting: value.waiting, running: value.running ?? 0 })}
          ${one.weight && html` · ${unitsText(value, one.weight.unit)}`}
        </span>
        ${
          mayOperate &&
          value.id &&
          html`<${Button} opensDialog class="small" onClick=${onLimit}>${t("constraints.limit_value")}<//>
            <${ValueActions} one=${one} value=${value} id=${value.id} path=${path} onDone=${onDone} />`
        }
      </div>
    </li>`;
}

/**
 * @param {{one: Constraint, value: KeyUsage, id: string, path: `api/constraints/${string}`, onDone: () => Promise<void>}} props
 */
function ValueActions({ one, value, id, path, onDone }) {
  const setLimits = (/** @type {Record<string, unknown>} */ limits, /** @type {string} */ text) =>
    attempt(
      () => post(`${path}/values`, { value_id: id, ...limits }),
      t(text, { value: visible(value.value) }),
    ).then(onDone);
  const resume = () =>
    setLimits({ ...limitsOf(value.own_limits, PER_VALUE), paused: false }, "constraints.done.resumed");
  return html`${
    value.own_limits?.paused
      ? html`<${Button} class="small" onClick=${resume}>${t("constraints.unpause")}<//>`
      : html`<${PauseButton}
          target=${{ constraint: one.name, value_id: id }}
          what=${`${visible(one.key ?? "")} = ${visible(value.value)}`} onDone=${onDone} />`
  }${
    value.own_limits &&
    html`<${Button} class="small" onClick=${() => setLimits({}, "constraints.done.as_all")}>${t("constraints.as_all")}<//>`
  }`;
}

/**
 * @param {KeyUsage} key
 * @returns {string} Why the value lets no job start now. Empty: jobs can start, or the value is paused, which the page
 *   shows elsewhere.
 */
export function closedBy({ is_open, held_until, running, starts_in_window, limits }) {
  if (is_open || limits.paused) return "";
  if (held_until) return t("constraints.closed.held");
  const { concurrency, rate } = limits;
  if (typeof concurrency === "number" && (running ?? 0) >= concurrency)
    return t("constraints.closed.concurrency", { used: running ?? 0, limit: concurrency });
  if (rate && (starts_in_window ?? 0) >= rate.limit)
    return t("constraints.closed.rate", { used: starts_in_window ?? 0, limit: rate.limit });
  return "";
}

/**
 * @param {Pick<Usage, "running_units" | "units_in_window">} usage
 * @param {string} unit
 * @returns {string} The units of running jobs and the units started within the window, if limits count them.
 */
export const unitsText = (usage, unit) =>
  [
    usage.running_units !== null &&
      t("constraints.units.running", { units: number(usage.running_units), unit }),
    usage.units_in_window !== null &&
      t("constraints.units.window", { units: number(usage.units_in_window), unit }),
  ]
    .filter(Boolean)
    .join(" · ");

/**
 * Find the values that `text` may stand for: `42` is a number, and also a text of two digits.
 * @param {`api/constraints/${string}`} path
 * @param {string} text
 * @param {AbortSignal} signal
 * @returns {Promise<KeyUsage[]>}
 */
async function askFor(path, text, signal) {
  if (!text) return [];
  const details = await Promise.all(
    [text, JSON.stringify(text)].map((value) => get(path, { value }, signal)),
  );
  const values = details.flatMap((detail) => (detail.value ? [detail.value] : []));
  const different = values.filter((value, at) => values.findIndex((one) => one.id === value.id) === at);
  const known = different.filter((value) => value.waiting || value.running || value.own_limits);
  return known.length > 0 ? known : different;
}
