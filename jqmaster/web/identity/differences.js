/** The changes in an entry of the audit log, in words. */
import { toJson } from "../core/api.js";
import { t } from "../core/i18n.js";
import { html } from "../core/lib.js";
import { visible } from "../core/text.js";
import { Text } from "../ui/formats.js";
import { isDefault, isMap, keyWords, wordsOf } from "./value_words.js";

/** @typedef {import("../../answers").Schemas["AuditEntryView"]} AuditEntry */

/**
 * Return the differences between two values, member by member if both are maps.
 * @param {unknown} before
 * @param {unknown} after
 * @returns {{key: string, before: unknown, after: unknown}[]} `before` or `after` is `undefined` if that side has no
 *   such member.
 */
export function differences(before, after) {
  if (!isMap(before) && !isMap(after))
    return toJson(before) === toJson(after)
      ? []
      : [{ key: "", before: before ?? undefined, after: after ?? undefined }];
  const was = isMap(before) ? before : {};
  const is = isMap(after) ? after : {};
  return [...new Set([...Object.keys(was), ...Object.keys(is)])]
    .filter((key) => toJson(was[key] ?? null) !== toJson(is[key] ?? null))
    .map((key) => ({ key, before: was[key], after: is[key] }));
}

/**
 * Names the value of a key, or the worker, that was changed. The differences do not contain this name, because it
 * stayed the same.
 * @param {{entry: AuditEntry}} props
 */
export function ChangedValue({ entry }) {
  const document = entry.after ?? entry.before;
  const what = isMap(document) && changedText(entry.action, document);
  return what ? html`<p><code><${Text} value=${what} max=${200} /></code></p>` : null;
}

/** @param {string} action @param {Record<string, unknown>} document @returns {string} */
function changedText(action, document) {
  if (action === "constraint.value" && "value" in document) {
    const { value, key } = document;
    return `${key ?? t("audit.value")} = ${typeof value === "string" ? JSON.stringify(value) : toJson(value)}`;
  }
  const { node_id: node, pid, url } = document;
  if (action.startsWith("worker.") && node)
    return [node, pid && t("master.pid", { pid: String(pid) }), url].filter(Boolean).join(" · ");
  return "";
}

/** @param {{before: unknown, after: unknown}} props */
export function Difference({ before, after }) {
  // Do not show the defaults of a document that was just created.
  const isMade = before === null || before === undefined;
  const rows = differences(before, after).filter(
    (row) => !isMade || row.key === "enabled" || !isDefault(row.after),
  );
  if (rows.length === 0) return null;
  const cell = (
    /** @type {string} */ key,
    /** @type {unknown} */ value,
    /** @type {"was" | "is"} */ kind,
  ) => {
    if (value === undefined || value === null) return "";
    const words = html`<${Text} value=${wordsOf(key, value)} max=${400} />`;
    // A document that was just created replaces nothing, so no mark is needed.
    if (isMade) return words;
    return html`<span class=${`diff ${kind}`}>
        <span aria-hidden="true">${kind === "was" ? "−" : "+"}</span>
        <span class="sr">${t(`audit.${kind}`)}</span> ${words}
      </span>`;
  };
  return html`<dl class="facts changes">
      ${rows.slice(0, 100).map(
        (row) =>
          html`<dt title=${visible(row.key)}>
                <${Text} value=${row.key ? keyWords(row.key) : t("audit.value")} max=${64} />
              </dt>
              <dd>${cell(row.key, row.before, "was")} ${cell(row.key, row.after, "is")}</dd>`,
      )}
    </dl>`;
}
