/** Values of any type, as a tree that opens and closes. */
import { toJson } from "../core/api.js";
import { t } from "../core/i18n.js";
import { html, useRef, useState } from "../core/lib.js";
import { Button, Copy } from "./controls.js";
import { Badge, Bytes, Text } from "./formats.js";

/**
 * A value in the form of JSON: binary `{"$bin": base64}` and extension values `{"$ext": [code, base64]}` as bytes.
 * @param {{value: unknown, label: string}} props
 */
export function Value({ value, label }) {
  const [mode, setMode] = useState("tree");
  const body = useRef(/** @type {HTMLElement | null} */ (null));
  const expand = () => {
    for (const part of body.current?.querySelectorAll("details") ?? []) part.open = true;
  };
  return html`<div class="value">
      <div class="value-tools" role="group" aria-label=${label}>
        <${Button} class="small" aria-pressed=${String(mode === "tree")} onClick=${() => setMode("tree")}>
          ${t("value.tree")}
        <//>
        <${Button} class="small" aria-pressed=${String(mode === "json")} onClick=${() => setMode("json")}>
          JSON
        <//>
        ${
          mode === "tree" &&
          isDeep(value) &&
          html`<${Button} class="small" onClick=${expand}>${t("value.expand")}<//>`
        }
        <${Copy} text=${() => toJson(value, 2)} label=${t("copy.json")} />
      </div>
      <div ref=${body} class="value-body" tabindex="0" role="region" aria-label=${label}>
        ${
          mode === "json"
            ? html`<pre><${Text} value=${toJson(value, 2)} max=${20_000} isBlock /></pre>`
            : html`<${Tree} value=${value} depth=${0} />`
        }
      </div>
    </div>`;
}

const MAX_SHOWN = 100;
// Members at this depth are folded when the value is first shown.
const OPEN_DEPTH = 3;

/** @param {unknown} value @returns {boolean} Whether a part of the value is folded at first. */
const isDeep = (value, depth = 0) =>
  value !== null &&
  typeof value === "object" &&
  (depth >= OPEN_DEPTH
    ? Object.keys(value).length > 0
    : Object.values(value).some((member) => isDeep(member, depth + 1)));

/** @param {{value: unknown, depth: number}} props */
function Tree({ value, depth }) {
  const [shown, setShown] = useState(MAX_SHOWN);
  if (value === null) return html`<span class="v-null">null</span>`;
  if (typeof value === "boolean") return html`<span class="v-bool">${String(value)}</span>`;
  if (typeof value === "number" || typeof value === "bigint")
    return html`<span class="v-num">${String(value)}</span>`;
  if (typeof value === "string")
    return html`<span class="v-text">"<${Text} value=${value} max=${1000} isBlock />"</span>`;
  if (typeof value !== "object") return null;
  const packed = packedBytes(value);
  if (packed) return html`<${Binary} ...${packed} />`;
  const entries = Array.isArray(value)
    ? value.map((member, i) => /** @type {[string | number, unknown]} */ ([i, member]))
    : Object.entries(value);
  if (entries.length === 0) return html`<span class="v-null">${Array.isArray(value) ? "[]" : "{}"}</span>`;
  const list = html`<ul class="tree">
      ${entries.slice(0, shown).map(
        ([key, member]) =>
          html`<li key=${key}>
                <span class="v-key">
                  ${typeof key === "number" ? key : html`<${Text} value=${key} max=${200} />`}
                </span> <${Tree} value=${member} depth=${depth + 1} />
              </li>`,
      )}
      ${
        entries.length > shown &&
        html`<li>
            <button type="button" class="link" onClick=${() => setShown(shown + 10 * MAX_SHOWN)}>
              ${t("text.more_items", { count: entries.length - shown })}
            </button>
          </li>`
      }
    </ul>`;
  const size = Array.isArray(value) ? `[${entries.length}]` : `{${entries.length}}`;
  return depth === 0
    ? list
    : html`<details open=${depth < OPEN_DEPTH}><summary>${size}</summary>${list}</details>`;
}

/**
 * @param {{$bin?: unknown, $ext?: unknown}} value
 * @returns {{bytes: Uint8Array<ArrayBuffer>, code: number | null} | null} The bytes of `$bin` or `$ext`; null for any
 *   other value.
 */
export function packedBytes(value) {
  const keys = Object.keys(value);
  if (keys.length !== 1) return null;
  try {
    if (typeof value.$bin === "string") return { bytes: fromBase64(value.$bin), code: null };
    if (Array.isArray(value.$ext) && typeof value.$ext[1] === "string")
      return { bytes: fromBase64(value.$ext[1]), code: Number(value.$ext[0]) };
  } catch {
    // The text is not base64, so show it as it is.
  }
  return null;
}

/** @param {string} text */
function fromBase64(text) {
  return Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
}

/** @param {{bytes: Uint8Array<ArrayBuffer>, code: number | null}} props */
function Binary({ bytes, code }) {
  const [rows, setRows] = useState(4);
  const lines = [];
  for (let at = 0; at < Math.min(bytes.length, rows * 16); at += 16) {
    const part = [...bytes.slice(at, at + 16)];
    lines.push(
      `${at.toString(16).padStart(6, "0")}  ${part
        .map((byte) => byte.toString(16).padStart(2, "0"))
        .join(" ")
        .padEnd(
          bytes.length > 16 ? 47 : 0,
        )}  ${part.map((byte) => (byte > 31 && byte < 127 ? String.fromCharCode(byte) : "·")).join("")}`,
    );
  }
  const save = () => {
    const url = URL.createObjectURL(new Blob([bytes], { type: "application/octet-stream" }));
    const link = document.createElement("a");
    link.href = url;
    link.download = "value.bin";
    link.click();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
  };
  return html`<span class="binary">
      <${Badge}>${code === null ? t("value.binary") : t("value.ext", { code: String(code) })}<//> <${Bytes}
        value=${bytes.length} />
      <button type="button" class="link" onClick=${save}>${t("value.save")}</button>
      ${
        bytes.length > 0 &&
        html`<pre class="hex" tabindex="0" aria-label=${t("value.binary")}>${lines.join("\n")}</pre>`
      }
      ${
        bytes.length > rows * 16 &&
        html`<button type="button" class="link" onClick=${() => setRows(rows * 8)}>${t("value.more_bytes", { count: bytes.length - rows * 16 })}</button>`
      }
    </span>`;
}
