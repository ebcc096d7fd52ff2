/** The active pauses: what is paused, why, by whom and until when. */
import { get, toJson } from "../core/api.js";
import { t } from "../core/i18n.js";
import { html } from "../core/lib.js";
import { useResource } from "../core/resource.js";
import { endPause } from "./pause_dialog.js";
import { href } from "../core/router.js";
import { visible } from "../core/text.js";
import { Button } from "../ui/controls.js";
import { Text, Time } from "../ui/formats.js";
import { whoText } from "../identity/value_words.js";

/** @typedef {import("../../answers").Schemas["Matcher"]} Matcher */

/** @param {string} name The name of a constraint. Returns whether somebody created this constraint as a pause. */
export const isPause = (name) => name.startsWith("pause-");

/**
 * @param {Matcher} matcher The matcher of a pause. @param {Matcher} other
 * @returns {boolean} Whether the pause covers all jobs that `other` matches, or one value of their key.
 */
export const concerns = (matcher, other) =>
  toJson(matcher) === toJson(other) ||
  ("all" in matcher && matcher.all.length === 2 && toJson(matcher.all[0]) === toJson(other));

/** @param {Matcher} matcher The matcher of a pause. @returns {string} The paused jobs, in words. */
export function pausedText(matcher) {
  if ("field" in matcher && matcher.op === "eq") {
    const subject = visible(String(matcher.value));
    if (matcher.field === "name") return t("pause.what.name", { name: subject });
    if (matcher.field === "tags") return t("pause.what.tag", { tag: subject });
  }
  const last = "all" in matcher ? matcher.all.at(-1) : undefined;
  return last && "field" in last
    ? t("pause.what.value", { key: visible(last.field), value: visible(toJson(last.value)) })
    : t("pause.what.matcher");
}

/** @returns {Set<string>} The job names that are paused as a whole. */
export function usePausedNames() {
  const { data } = useResource((signal) => get("api/constraints", {}, signal), [], {
    events: ["constraints"],
    leastMs: 2000,
    everyMs: 15_000,
  });
  const pauses = (data?.constraints ?? []).filter((one) => one.enabled && isPause(one.name));
  return new Set(pauses.flatMap((one) => namesOf(one.matcher)));
}

/** @param {Matcher} matcher @returns {string[]} */
const namesOf = (matcher) =>
  "field" in matcher && matcher.field === "name" && matcher.op === "eq" ? [String(matcher.value)] : [];

/** @param {{mayOperate: boolean, isOf?: (matcher: Matcher) => boolean}} props `isOf`: selects the pauses to show. */
export function Pauses({ mayOperate, isOf = () => true }) {
  const { data, reload } = useResource((signal) => get("api/constraints", {}, signal), [], {
    events: ["constraints", "jobs"],
    leastMs: 2000,
    everyMs: 5000,
  });
  const pauses = (data?.constraints ?? []).filter((one) => isPause(one.name) && isOf(one.matcher));
  if (pauses.length === 0) return null;
  return html`<section class="card paused-now" aria-labelledby="paused">
      <h2 id="paused">${t("pause.now")}</h2>
      <ul class="plain">
        ${pauses.map(
          (one) => html`<li key=${one.name} class="row">
              <a href=${href("constraints", { name: one.name })}>
                <strong>${pausedText(one.matcher)}</strong>
              </a>
              ${one.reason && html`<span><${Text} value=${one.reason} max=${200} /></span>`}
              <span class="muted">
                ${
                  one.created_by &&
                  html`${t("audit.by")} <span title=${visible(one.created_by)}>${visible(whoText(one.created_by))}</span> · `
                }
                <${Time} at=${one.created_at} /> · ${
                  one.expires_at
                    ? html`${t("pause.ends")} <${Time} at=${one.expires_at} />`
                    : t("pause.forever")
                }
              </span>
              <span class="num">${t("pause.waiting", { count: one.usage.waiting ?? 0 })}</span>
              ${
                mayOperate &&
                html`<${Button} class="small" onClick=${() => endPause(one.name, reload)}>${t("constraints.unpause")}<//>`
              }
            </li>`,
        )}
      </ul>
    </section>`;
}
