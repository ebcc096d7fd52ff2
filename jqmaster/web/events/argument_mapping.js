/** The argument that a definition creates from an event: rows with a field and its source, or JSON. */
import { parseExact, toJson } from "../core/api.js";
import { t } from "../core/i18n.js";
import { html, useId, useLayoutEffect, useRef, useState } from "../core/lib.js";
import { typedOf, valueOf } from "../matching/rule_builder.js";
import { Button } from "../ui/controls.js";

/** @typedef {import("../core/lib.js").FieldEvent} FieldEvent */

/** @typedef {{key: string, isFrom: boolean, text: string}} Row `text`: a path in the event, or a fixed value as the user types it. */

/** @param {unknown} value @returns {value is Record<string, unknown>} */
const isMap = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

/** @param {unknown} value @returns {boolean} Whether any part of the value comes from the event. */
const reads = (value) =>
  value !== null &&
  typeof value === "object" &&
  ((isMap(value) && "from" in value) || Object.values(value).some(reads));

/**
 * Return the rows of an argument, or null if the argument is not a plain map of fields.
 * @param {string} text JSON.
 * @returns {Row[] | null}
 */
export function rowsOf(text) {
  /** @type {unknown} */
  let document;
  try {
    document = parseExact(text);
  } catch {
    return null;
  }
  if (!isMap(document) || "from" in document) return null;
  const rows = Object.entries(document).map(([key, value]) => {
    if (isMap(value) && typeof value["from"] === "string") return { key, isFrom: true, text: value["from"] };
    return reads(value) ? null : { key, isFrom: false, text: typedOf(value) };
  });
  return rows.every((row) => row !== null) ? rows : null;
}

/** @param {Row[]} rows @returns {string} */
const textOf = (rows) =>
  toJson(
    Object.fromEntries(
      rows
        .filter(({ key }) => key !== "")
        .map(({ key, isFrom, text }) => [key, isFrom ? { from: text } : valueOf(text)]),
    ),
    2,
  );

/**
 * @param {{text: string, onText: (text: string) => void, paths: string[]}} props `text`: the argument as JSON.
 *   `paths`: the paths that events have.
 */
export function ArgumentMapping({ text, onText, paths }) {
  const id = useId();
  const [rows, setRows] = useState(() => rowsOf(text));
  const told = useRef(text);
  useLayoutEffect(() => {
    // Take over only changes that were made elsewhere, so that the text is not reformatted while somebody types.
    if (text === told.current) return;
    told.current = text;
    setRows(rowsOf(text));
  }, [text]);
  if (rows === null) return html`<p class="muted">${t("events.mapping.nested")}</p>`;
  const change = (/** @type {Row[]} */ next) => {
    setRows(next);
    told.current = textOf(next);
    onText(told.current);
  };
  const put = (/** @type {number} */ at, /** @type {Partial<Row>} */ part) =>
    change(rows.map((row, place) => (place === at ? { ...row, ...part } : row)));
  return html`<div class="rule" role="group" aria-label=${t("events.mapping")}>
      <datalist id=${`${id}-paths`}>
        ${paths.map((path) => html`<option key=${path} value=${path} />`)}
      </datalist>
      ${rows.map((row, at) => {
        const n = at + 1;
        return html`<div key=${at} class="rule-row">
            <input
              aria-label=${t("events.mapping.key", { n })} spellcheck=${false} autocomplete="off"
              autocapitalize="none" maxlength="200" value=${row.key}
              onInput=${(/** @type {FieldEvent} */ e) => put(at, { key: e.target.value })} />
            <select
              aria-label=${t("events.mapping.source", { n })} value=${row.isFrom ? "from" : "value"}
              onChange=${(/** @type {FieldEvent} */ e) => put(at, { isFrom: e.target.value === "from" })}>
              <option value="from">${t("events.mapping.from")}</option>
              <option value="value">${t("events.mapping.value")}</option>
            </select>
            <input
              aria-label=${t("rule.value", { n })} list=${row.isFrom ? `${id}-paths` : undefined}
              spellcheck=${false} autocomplete="off" autocapitalize="none" value=${row.text}
              onInput=${(/** @type {FieldEvent} */ e) => put(at, { text: e.target.value })} />
            <button
              type="button" class="icon-button" aria-label=${t("events.mapping.remove", { n })}
              onClick=${() => change(rows.filter((_, place) => place !== at))}>
              ✕
            </button>
          </div>`;
      })}
      <div>
        <${Button}
          class="small" onClick=${() => change([...rows, { key: "", isFrom: true, text: "payload" }])}>
          ${t("events.mapping.add")}
        <//>
      </div>
      <p class="muted small">${t("events.mapping.hint")}</p>
    </div>`;
}
