/** One group of failures: its count and times, its versions, its assignee, and whether it is resolved or ignored. */
import { del, may } from "../core/api.js";
import { number, t, tOr } from "../core/i18n.js";
import { html } from "../core/lib.js";
import { href } from "../core/router.js";
import { visible } from "../core/text.js";
import { Button, MoreMenu } from "../ui/controls.js";
import { attempt } from "../ui/dialogs.js";
import { Badge, Id, Num, Text, Time } from "../ui/formats.js";
import { Sparkline } from "../ui/sparkline.js";
import { pathOf } from "./failure_dialogs.js";
import { stillText } from "./still_failed.js";

/** @typedef {import("../../answers").Schemas["FailureGroup"]} FailureGroup */

/** @type {Record<string, "info" | "warn">} */
const MARKS = { new: "info", regressed: "warn" };

/** @param {FailureGroup} group @returns {boolean} Whether the group is ignored now. */
export const isIgnored = (group) => Boolean(group.ignored) && group.ignored?.ended_by === null;

/** @param {FailureGroup} group @returns {boolean} Whether the group is resolved, and has no new failures since. */
const isResolved = (group) => Boolean(group.resolved) && group.resolved?.reopened_by === null;

/** Actions that are seldom needed. The page has them in a menu. */
const ASKED = /** @type {const} */ (["values", "assign", "merge"]);

/**
 * @typedef {{group: FailureGroup, session: import("../core/api.js").Session, onAct: (action: "retry" | "delete", group: FailureGroup) => void,
 *   onAsk: (question: import("./failure_dialogs.js").Question, group: FailureGroup) => void, onChange: () => unknown}} Shown
 */

/**
 * @param {Shown & {count?: number, still?: import("./still_failed.js").Still}} props
 *   `count`: replaces the count of the whole group. `still`: how many jobs of the whole group are still failed, if this
 *   number is known.
 */
export function FailureCard({ group, session, count = group.count, still, onAct, onAsk, onChange }) {
  const mayOperate = may(session, "operate");
  const message = group.message || t("failures.silent");
  return html`<li class=${`card group ${isIgnored(group) || isResolved(group) ? "is-ignored" : ""}`}>
      <div class="group-count">
        <p><b><${Num} value=${count} /></b> <span class="muted">${t("failures.failed", { count })}</span></p>
        ${still && html`<p class="still">${stillText(still)}</p>`}
        <${Trend} group=${group} />
      </div>
      <div class="group-body">
        <p class="group-head">
          <a href=${href("names", { name: group.name })}>
            <strong><${Text} value=${group.name} max=${100} /></strong>
          </a> <${Badge} kind="bad">${tOr(`cause.${group.cause}`, visible(group.cause))}<//>
          ${(group.marks ?? []).map(
            (mark) =>
              html` <span title=${tOr(`failures.mark.${mark}.rule`, "")}>
                  <${Badge} kind=${MARKS[mark] ?? "info"}>${tOr(`failures.mark.${mark}`, visible(mark))}<//>
                </span>`,
          )}
          <${Decisions} group=${group} />
          ${
            group.example_job_id &&
            html`<span class="group-example muted">
                ${t("failures.example")} <${Id}
                  id=${group.example_job_id} href=${href("job", { id: group.example_job_id })} />
              </span>`
          }
        </p>
        ${
          group.message_hidden
            ? html`<p class="muted">${group.error_type && html`<code><${Text} value=${group.error_type} max=${200} /></code> · `}${t("job.error_hidden")}</p>`
            : html`<p class="group-message" title=${visible(message)}><${Text} value=${message} max=${300} /></p>`
        }
        <p class="group-more muted">
          <${Versions} group=${group} />
          ${
            group.raised_at &&
            html`<code title=${visible(group.raised_at.code)}>
                <${Text} value=${group.raised_at.file} max=${60} />
              </code> <${Text} value=${group.raised_at.function} max=${60} /> · `
          }
          ${t("failures.last")} <${Time} at=${group.last_seen_at} /> · ${t("failures.first")} <${Time}
            at=${group.first_seen_at} />
        </p>
        <${Ignored} group=${group} />
        <${Merged} group=${group} mayOperate=${mayOperate} onChange=${onChange} />
      </div>
      <${Actions} group=${group} session=${session} onAct=${onAct} onAsk=${onAsk} onChange=${onChange} />
    </li>`;
}

/** @param {Shown} props */
function Actions({ group, session, onAct, onAsk, onChange }) {
  const mayOperate = may(session, "operate");
  const isCovered = group.message_hidden && !mayOperate;
  const undo = (/** @type {"ignore" | "resolve"} */ call, /** @type {string} */ done) =>
    attempt(() => del(pathOf(group, call)), done).then(onChange);
  return html`<div class="group-acts">
        <a
          class="button small as-link" href=${href(
            "jobs",
            isCovered
              ? { state: "failed", name: group.name, cause: group.cause }
              : { state: "failed", failure_group: group.id },
          )}>
          ${t("failures.jobs")}
        </a>
        ${
          mayOperate &&
          html`<${Button} opensDialog class="small" onClick=${() => onAct("retry", group)}>
              ${t("action.retry")}
            <//>
            ${
              isResolved(group)
                ? html`<${Button} class="small" onClick=${() => undo("resolve", t("failures.reopened"))}>${t("failures.reopen")}<//>`
                : html`<${Button} opensDialog class="small" onClick=${() => onAsk("resolve", group)}>${t("failures.resolve")}<//>`
            }
            <${MoreMenu} label=${t("failures.more")}>
              ${ASKED.map(
                (what) =>
                  html`<${Button} key=${what} opensDialog class="small" onClick=${() => onAsk(what, group)}>${t(`failures.${what}`)}<//>`,
              )}
              ${
                isIgnored(group)
                  ? html`<${Button} class="small" onClick=${() => undo("ignore", t("failures.unignored"))}>${t("failures.unignore")}<//>`
                  : html`<${Button} opensDialog class="small" onClick=${() => onAsk("ignore", group)}>${t("failures.ignore")}<//>`
              }
              <${Button} opensDialog class="small" kind="danger" onClick=${() => onAct("delete", group)}>
                ${t("action.delete")}
              <//>
            <//>`
        }
      </div>`;
}

/** @param {{group: FailureGroup}} props The assignee of the group, and the version in which it is resolved. */
function Decisions({ group }) {
  const { assigned, resolved } = group;
  return html`${
    assigned &&
    html` <span title=${`${t("failures.assigned.by")} ${visible(assigned.by)}`}>
        <${Badge} kind="info">${t("failures.assigned.to", { assignee: visible(assigned.assignee) })}<//>
      </span>`
  }
    ${
      resolved &&
      html` <span title=${`${t("audit.by")} ${visible(resolved.by)}`}><${Badge} kind=${resolved.reopened_by === null ? "ok" : "warn"}>${
        resolved.reopened_by === null
          ? resolved.version
            ? t("failures.resolved.in", { version: visible(resolved.version) })
            : t("failures.resolved.next")
          : t("failures.reopened.by", { version: visible(resolved.reopened_by) })
      }<//></span>`
    }`;
}

/** @param {{group: FailureGroup}} props */
function Trend({ group }) {
  const trend = group.trend ?? [];
  if (trend.length === 0) return null;
  const count = trend.reduce((sum, one) => sum + one, 0);
  const label = t("failures.trend", { count, most: Math.max(...trend), last: trend.at(-1) ?? 0 });
  return html`<${Sparkline} values=${trend} label=${label} /><span class="muted small">${t("failures.day", { count })}</span>`;
}

/** @param {{group: FailureGroup}} props */
function Versions({ group }) {
  const versions = group.versions ?? [];
  if (versions.length === 0) return null;
  return html`<span>${t("failures.versions")} ${versions.map(
    (seen, at) =>
      html`${at > 0 && " · "}<${Text} value=${seen.version} max=${40} /> <span class="num">(${number(seen.count)})</span>`,
  )} · </span>`;
}

/** @param {{group: FailureGroup, mayOperate: boolean, onChange: () => unknown}} props The groups that were merged into this one. */
function Merged({ group, mayOperate, onChange }) {
  const merged = group.merged ?? [];
  if (merged.length === 0) return null;
  const split = (/** @type {string} */ id) =>
    attempt(() => del(`api/failures/${encodeURIComponent(id)}/merge`), t("failures.split.done")).then(
      onChange,
    );
  return html`<ul class="plain" aria-label=${t("failures.merged")}>
      ${merged.map(
        (one) =>
          html`<li key=${one.id} class="muted">
              ${t("failures.merged")} <${Num} value=${one.count} /> × <${Text}
                value=${one.message || one.id} max=${160} /> ${
                  mayOperate &&
                  html`<button type="button" class="link" onClick=${() => split(one.id)}>${t("failures.split_off")}</button>`
                }
            </li>`,
      )}
    </ul>`;
}

/** @param {{group: FailureGroup}} props Who ignores the group, until when and why; or why it is no longer ignored. */
function Ignored({ group }) {
  const { ignored } = group;
  if (!ignored) return null;
  if (ignored.ended_by !== null)
    return html`<p class="muted">${tOr(`failures.ended.${ignored.ended_by}`, t("failures.ended"))}</p>`;
  return html`<p>
      <${Badge} kind="off">${t("failures.ignored")}<//> <span class="muted">
        ${t("audit.by")} <${Text} value=${ignored.by} max=${80} /> · <${Time} at=${ignored.at} /> · ${
          ignored.until
            ? html`${t("failures.until")} <${Time} at=${ignored.until} />`
            : t("failures.until.changes")
        }
        ${ignored.reason && html` · <${Text} value=${ignored.reason} max=${200} />`}
      </span>
    </p>`;
}
