/** One group of failures: how often and when, on which versions, and who ignores it. */
import { del, get, may, post } from "../core/api.js";
import { number, t, tOr } from "../core/i18n.js";
import { html, useState } from "../core/lib.js";
import { href } from "../core/router.js";
import { visible } from "../core/text.js";
import { Button } from "../ui/controls.js";
import { attempt } from "../ui/dialogs.js";
import { DurationField, endOf, unreadable } from "../ui/durations.js";
import { FormDialog } from "../ui/form_dialog.js";
import { Badge, Id, Num, Text, Time, nowMs } from "../ui/formats.js";
import { FormField, useForm } from "../ui/forms.js";
import { Sparkline } from "../ui/sparkline.js";

/** @typedef {import("../../answers").Schemas["NameStats"]} NameStats */

const HOUR_MS = 3_600_000;
// As many groups as the master keeps.
const KEPT = 500;
const MARKS = /** @type {const} */ ({ new: "info", regressed: "warn" });

/** @param {any} group @returns {boolean} Whether it is ignored now. */
export const isIgnored = (group) => Boolean(group.ignored) && group.ignored.ended_by === null;

/**
 * Add `is_ignored` to the names in an answer of `api/names`: whether all their failures of the last hour are ignored.
 * @param {any} answer
 * @param {AbortSignal} signal
 */
export async function withIgnored(answer, signal) {
  if (!answer.names.some((/** @type {NameStats} */ name) => name.failed > 0)) return answer;
  const isRecent = (/** @type {any} */ group) => nowMs() - Date.parse(group.last_seen_at) < HOUR_MS;
  const { groups } = await get("api/failures", { ignored: "true", limit: KEPT }, signal);
  const ignored = new Set(groups.filter(isRecent).map((group) => group.name));
  // Usually nobody ignores anything. The latest of the other groups is enough, and no example of the rest is read.
  const marked = async (/** @type {NameStats} */ name) => {
    if (!ignored.has(name.name)) return { ...name, is_ignored: false };
    const others = await get("api/failures", { name: name.name, ignored: "false", limit: 1 }, signal);
    return { ...name, is_ignored: !others.groups.some(isRecent) };
  };
  return { ...answer, names: await Promise.all(answer.names.map(marked)) };
}

/** @param {any} group */
const pathOf = (group) => `api/failures/${encodeURIComponent(group.id)}/ignore`;

/**
 * @param {{group: any, session: import("../core/api.js").Session, count?: number, onAct: (action: "retry" | "delete", group: any) => void, onIgnore: (group: any) => void, onChange: () => unknown}} props
 *   `count`: replaces the count of the whole group.
 */
export function FailureCard({ group, session, count = group.count, onAct, onIgnore, onChange }) {
  const mayOperate = may(session, "operate");
  return html`<li class=${`card group ${isIgnored(group) ? "is-ignored" : ""}`}><div class="group-count"><b><${Num} value=${count} /></b><span class="muted">${t("failures.failed", { count })}</span><${Trend} group=${group} /></div>
    <div class="group-body"><p class="row"><a href=${href("names", { name: group.name })}><strong><${Text} value=${group.name} max=${100} /></strong></a> <${Badge} kind="bad">${tOr(`cause.${group.cause}`, visible(group.cause))}<//>${(group.marks ?? []).map((/** @type {string} */ mark) => html` <span title=${tOr(`failures.mark.${mark}.rule`, "")}><${Badge} kind=${/** @type {any} */ (MARKS)[mark] ?? "info"}>${tOr(`failures.mark.${mark}`, visible(mark))}<//></span>`)}</p>
      ${group.message_hidden ? html`<p class="muted">${group.error_type && html`<code><${Text} value=${group.error_type} max=${200} /></code> · `}${t("job.error_hidden")}</p>` : html`<pre class="message"><${Text} value=${group.message || t("failures.silent")} max=${600} isBlock /></pre>`}
      <p class="muted">${t("failures.last")} <${Time} at=${group.last_seen_at} /> · ${t("failures.first")} <${Time} at=${group.first_seen_at} />${group.example_job_id && html` · ${t("failures.example")} <${Id} id=${group.example_job_id} href=${href("job", { id: group.example_job_id })} />`}</p>
      <${Versions} group=${group} /><${Ignored} group=${group} />
      <p class="row"><a class="button small as-link" href=${href("jobs", group.message_hidden && !mayOperate ? { state: "failed", name: group.name, cause: group.cause } : { state: "failed", failure_group: group.id })}>${t("failures.jobs")}</a>
        ${
          mayOperate &&
          html`<${Button} opensDialog class="small" onClick=${() => onAct("retry", group)}>${t("action.retry")}<//>
          ${isIgnored(group) ? html`<${Button} class="small" onClick=${() => attempt(() => del(pathOf(group)), t("failures.unignored")).then(onChange)}>${t("failures.unignore")}<//>` : html`<${Button} opensDialog class="small" onClick=${() => onIgnore(group)}>${t("failures.ignore")}<//>`}
          <${Button} opensDialog class="small" kind="danger" onClick=${() => onAct("delete", group)}>${t("action.delete")}<//>`
        }</p></div></li>`;
}

/** @param {{group: any}} props */
function Trend({ group }) {
  const trend = /** @type {number[]} */ (group.trend ?? []);
  if (trend.length === 0) return null;
  const count = trend.reduce((sum, one) => sum + one, 0);
  const label = t("failures.trend", { count, most: Math.max(...trend), last: trend.at(-1) ?? 0 });
  return html`<${Sparkline} values=${trend} label=${label} /><span class="muted small">${t("failures.day", { count })}</span>`;
}

/** @param {{group: any}} props */
function Versions({ group }) {
  const versions = /** @type {any[]} */ (group.versions ?? []);
  if (versions.length === 0) return null;
  return html`<p class="muted">${t("failures.versions")} ${versions.map((seen, at) => html`${at > 0 && " · "}<${Text} value=${seen.version} max=${40} /> <span class="num">(${number(seen.count)})</span>`)}</p>`;
}

/** @param {{group: any}} props Who ignores it, until when and why; or why that is over. */
function Ignored({ group }) {
  const { ignored } = group;
  if (!ignored) return null;
  if (ignored.ended_by !== null)
    return html`<p class="muted">${tOr(`failures.ended.${ignored.ended_by}`, t("failures.ended"))}</p>`;
  return html`<p><${Badge} kind="off">${t("failures.ignored")}<//> <span class="muted">${t("audit.by")} <${Text} value=${ignored.by} max=${80} /> · <${Time} at=${ignored.at} /> · ${ignored.until ? html`${t("failures.until")} <${Time} at=${ignored.until} />` : t("failures.until.changes")}${ignored.reason && html` · <${Text} value=${ignored.reason} max=${200} />`}</span></p>`;
}

/** @param {{group: any, onClose: () => void, onDone: () => unknown}} props */
export function IgnoreDialog({ group, onClose, onDone }) {
  const form = useForm(null, () => ({ lasts: "", reason: "" }));
  const save = async (/** @type {import("../ui/forms.js").Values} */ { reason, lasts = "" }) => {
    const end = endOf(lasts);
    if (lasts.trim() && end === null) throw unreadable("duration_s");
    const length = end !== null && { duration_s: Math.ceil((end - nowMs()) / 1000) };
    await post(pathOf(group), { reason, ...length });
    await onDone();
    const undo = () => attempt(() => del(pathOf(group)), t("failures.unignored")).then(onDone);
    return { text: t("failures.ignoring"), undo };
  };
  return html`<${FormDialog} title=${t("failures.ignore.title")} form=${form} onClose=${onClose} onSave=${save} isNew saveLabel=${t("failures.ignore")}>
    <p><strong><${Text} value=${group.name} max=${100} /></strong></p><p class="muted">${t("failures.ignore.text")}</p>
    <${DurationField} form=${form} name="lasts" path="duration_s" label=${t("failures.ignore.for")} empty=${`${t("failures.until.changes")}. ${t("failures.changes")}`} />
    <${FormField} form=${form} name="reason" label=${t("pause.reason")} maxlength="500" /><//>`;
}

/** @returns {{ignoring: any, ask: (group: any) => void, end: () => void}} The group that somebody is about to ignore. */
export function useIgnoring() {
  const [ignoring, ask] = useState(null);
  return { ignoring, ask, end: () => ask(null) };
}
