/** The parts that pages are made of. Text from outside goes through `Text` or `visible`; nothing here makes markup of it. */
import { html, useCallback, useEffect, useId, useLayoutEffect, useMemo, useRef, useState } from "./lib.js";
import { Problem, toJson } from "./api.js";
import { language, number, t, tOr } from "./i18n.js";
import { usePref } from "./prefs.js";
import { pieces, visible } from "./text.js";
import uPlot from "./vendor/uplot.js";

/** @typedef {any} Node */

// --- text, numbers, times

/**
 * Text from outside. Longer than `max` characters, the rest comes at a press.
 * @param {{value: unknown, max?: number, isBlock?: boolean}} props
 */
export function Text({ value, max = 300, isBlock = false }) {
  const [isWhole, setWhole] = useState(false);
  const text = value === null || value === undefined ? "" : String(value);
  const isCut = !isWhole && text.length > max;
  const shown = isCut ? text.slice(0, max) : text;
  return html`<bdi class="text">${pieces(shown, isBlock).map((piece, i) =>
    i % 2 ? html`<span class="escape" title=${t("text.escape")}>${piece}</span>` : piece,
  )}</bdi>${
    isCut &&
    html`<button type="button" class="link" onClick=${() => setWhole(true)}>${t("text.more", { count: text.length - max })}</button>`
  }`;
}

/** @param {{value: number | bigint | null | undefined, digits?: number}} props */
export function Num({ value, digits = 0 }) {
  if (value === null || value === undefined)
    return html`<span class="num none" aria-label=${t("none")}>–</span>`;
  return html`<span class="num">${number(value, { maximumFractionDigits: digits })}</span>`;
}

const UNITS = /** @type {const} */ ([
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["min", 60_000],
  ["s", 1000],
  ["ms", 1],
]);

/**
 * A duration in its two largest units, such as `3 min 20 s`; below ten seconds with a fraction.
 * @param {number} ms
 */
export function durationText(ms) {
  const sign = ms < 0 ? "−" : "";
  const all = Math.abs(ms);
  if (all < 1) return `${sign}${number(all, { maximumFractionDigits: 1 })} ${t("unit.ms")}`;
  if (all < 1000) return `${sign}${Math.round(all)} ${t("unit.ms")}`;
  if (all < 10_000) return `${sign}${number(all / 1000, { maximumFractionDigits: 1 })} ${t("unit.s")}`;
  const at = UNITS.findIndex(([, size]) => all >= size);
  const [unit, size] = UNITS[at] ?? ["ms", 1];
  const whole = Math.floor(all / size);
  const next = UNITS[at + 1];
  const rest = next && unit !== "s" ? Math.floor((all - whole * size) / next[1]) : 0;
  return (
    `${sign}${number(whole)} ${t(`unit.${unit}`)}` + (rest && next ? ` ${rest} ${t(`unit.${next[0]}`)}` : "")
  );
}

/** @param {{ms: number | null | undefined}} props */
export function Duration({ ms }) {
  if (ms === null || ms === undefined) return html`<span class="num none" aria-label=${t("none")}>–</span>`;
  return html`<span class="num">${durationText(ms)}</span>`;
}

/** @param {number} bytes */
export function bytesText(bytes) {
  const names = ["B", "KiB", "MiB", "GiB", "TiB"];
  let value = bytes;
  let at = 0;
  while (value >= 1024 && at < names.length - 1) {
    value /= 1024;
    at += 1;
  }
  return `${number(value, { maximumFractionDigits: value < 10 && at ? 1 : 0 })} ${names[at]}`;
}

/** @param {{value: number | null | undefined}} props */
export function Bytes({ value }) {
  if (value === null || value === undefined)
    return html`<span class="num none" aria-label=${t("none")}>–</span>`;
  return html`<span class="num" title=${`${number(value)} B`}>${bytesText(value)}</span>`;
}

let skewMs = 0;
/** @param {string} at The instant of an answer that was made just now: times are told by the master's clock. */
export function tellTime(at) {
  const ms = Date.parse(at) - Date.now();
  if (Number.isFinite(ms)) skewMs = ms;
}
/** @returns {number} Unix ms by the master's clock, as far as it is known. */
export const nowMs = () => Date.now() + skewMs;

/** @type {Set<() => void>} */
const tickers = new Set();
setInterval(() => {
  if (!document.hidden) for (const tick of [...tickers]) tick();
}, 1000);
/** Draws the component again each second that somebody can see. */
export function useTick() {
  const [, redraw] = useState(0);
  useEffect(() => {
    const tick = () => redraw((/** @type {number} */ n) => n + 1);
    tickers.add(tick);
    return () => void tickers.delete(tick);
  }, []);
}

/**
 * @param {number} ms Unix.
 * @returns {string} Such as `2026-11-21 04:30:00 UTC`.
 */
export function utcText(ms) {
  const date = new Date(ms);
  return Number.isNaN(date.getTime())
    ? "?"
    : date
        .toISOString()
        .replace("T", " ")
        .replace(/\.\d+Z$/, " UTC");
}

/** @param {number} ms Unix. */
export function relativeText(ms) {
  const ago = nowMs() - ms;
  if (Math.abs(ago) < 1000) return t("time.now");
  const rounded = Math.abs(ago) < 10_000 ? Math.round(ago / 1000) * 1000 : ago;
  return rounded > 0
    ? t("time.ago", { duration: durationText(rounded) })
    : t("time.in", { duration: durationText(-rounded) });
}

/**
 * An instant as the reader chose: relative or UTC; the title has the other.
 * @param {{at: string | null | undefined}} props ISO 8601.
 */
export function Time({ at }) {
  useTick();
  const [mode] = usePref("times", "relative");
  if (!at) return html`<span class="num none" aria-label=${t("none")}>–</span>`;
  const ms = Date.parse(at);
  if (Number.isNaN(ms)) return html`<${Text} value=${at} />`;
  const relative = relativeText(ms);
  const utc = utcText(ms);
  return html`<time class="num" datetime=${at} title=${mode === "utc" ? relative : `${utc} (${at})`}>${mode === "utc" ? utc : relative}</time>`;
}

/** @param {{id: string, href?: string}} props A UUID, its end first to be seen: that is what differs. */
export function Id({ id, href }) {
  const short = id.length > 13 ? `…${id.slice(-10)}` : id;
  return href
    ? html`<a class="id" href=${href} title=${visible(id)}>${visible(short)}</a>`
    : html`<span class="id" title=${visible(id)}>${visible(short)}</span>`;
}

/** @param {{state: string}} props */
export function State({ state }) {
  return html`<span class=${`state state-${state}`}><i aria-hidden="true"></i>${tOr(`state.${state}`, visible(state))}</span>`;
}

/** @param {{kind?: "ok" | "warn" | "bad" | "info" | "off", children?: Node}} props */
export function Badge({ kind = "info", children }) {
  return html`<span class=${`badge badge-${kind}`}>${children}</span>`;
}

// --- asking and answering

/** @param {Record<string, any>} props A button; `kind`: "primary", "danger" or none. */
export function Button({ kind = "", class: more = "", children, ...rest }) {
  return html`<button type="button" class=${`button ${kind} ${more}`} ...${rest}>${children}</button>`;
}

/** @param {{text: string | (() => string), label?: string, kind?: string}} props Copies; says so. */
export function Copy({ text, label, kind = "" }) {
  const [state, setState] = useState("");
  const copy = async () => {
    const value = typeof text === "function" ? text() : text;
    try {
      await navigator.clipboard.writeText(value);
      setState("done");
    } catch {
      setState(copyByHand(value) ? "done" : "failed");
    }
    setTimeout(() => setState(""), 1500);
  };
  const said = state === "done" ? t("copy.done") : state === "failed" ? t("copy.failed") : "";
  return html`<button type="button" class=${`button small ${kind}`} onClick=${copy}>${said || label || t("copy")}<span class="sr" aria-live="polite">${said}</span></button>`;
}

/** @param {string} text For pages without a secure origin, where there is no clipboard API. */
function copyByHand(text) {
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "sr";
  (document.querySelector("dialog[open]") ?? document.body).append(area);
  area.select();
  try {
    return document.execCommand("copy");
  } catch {
    return false;
  } finally {
    area.remove();
  }
}

/** @param {Problem} problem The errors that its `detail` does not say itself. */
function untold(problem) {
  return problem.errors.filter((error) => !problem.detail.includes(error.msg));
}

/** @param {{problem: Problem | null | undefined, onRetry?: () => void}} props A problem's title, detail and fields. */
export function ErrorBox({ problem, onRetry }) {
  if (!problem) return null;
  const isSilent = problem.status === 0;
  const others = untold(problem);
  return html`<div class="error-box" role="alert">
    <p><strong>${isSilent ? t("error.no_answer") : visible(problem.title)}</strong>${problem.detail && html` <${Text} value=${problem.detail} max=${600} />`}</p>
    ${others.length > 0 && html`<ul>${others.slice(0, 50).map((error) => html`<li><code>${visible(error.loc.join("."))}</code> <${Text} value=${error.msg} /></li>`)}</ul>`}
    ${problem.code && html`<p class="muted small">${problem.status || ""} <code>${visible(problem.code)}</code></p>`}
    ${onRetry && html`<${Button} onClick=${onRetry}>${t("error.retry")}<//>`}
  </div>`;
}

/** @param {{title: string, children?: Node, curl?: string}} props What to do where there is nothing. */
export function Empty({ title, children, curl }) {
  return html`<div class="empty"><p class="empty-title">${title}</p>${children && html`<div>${children}</div>`}
    ${curl && html`<${Code} text=${curl} />`}</div>`;
}

/** @param {{text: string, label?: string}} props Text to copy. */
export function Code({ text, label }) {
  return html`<div class="code"><pre tabindex="0" role="region" aria-label=${label || t("code")}><code>${pieces(
    text,
    true,
  ).map((piece, i) =>
    i % 2 ? html`<span class="escape">${piece}</span>` : piece,
  )}</code></pre><${Copy} text=${text} /></div>`;
}

/** @param {{isLoading?: boolean}} props */
export function Loading({ isLoading = true }) {
  return isLoading ? html`<p class="loading" role="status">${t("loading")}</p>` : null;
}

/**
 * @param {{title: string, onClose: () => void, children?: Node, isWide?: boolean}} props A modal dialog; Escape closes it, the focus returns.
 */
export function Dialog({ title, onClose, children, isWide = false }) {
  const ref = useRef(/** @type {HTMLDialogElement | null} */ (null));
  const id = useId();
  useLayoutEffect(() => {
    const opener = document.activeElement;
    ref.current?.showModal();
    return () => {
      if (opener instanceof HTMLElement && opener.isConnected) opener.focus();
    };
  }, []);
  return html`<dialog ref=${ref} class=${isWide ? "wide" : ""} aria-labelledby=${id}
      onCancel=${(/** @type {Event} */ e) => {
        e.preventDefault();
        onClose();
      }}
      onMouseDown=${(/** @type {MouseEvent} */ e) => {
        if (e.target === ref.current) onClose();
      }}>
    <div class="dialog"><header><h2 id=${id}>${title}</h2><button type="button" class="icon-button" aria-label=${t("close")} onClick=${onClose}>✕</button></header>
    ${children}</div></dialog>`;
}

/**
 * Asks before something that cannot be taken back, and names how many it concerns.
 * @param {{title: string, count: number, isAtLeast?: boolean, isAlways?: boolean, verb: string, kind?: string, onConfirm: () => Promise<unknown> | unknown, onClose: () => void, children?: Node}} props
 *   `verb`: what the button says, such as "Delete"; it is followed by the count. `isAlways`: also where it concerns none.
 */
export function ConfirmCount({
  title,
  count,
  isAtLeast = false,
  isAlways = false,
  verb,
  kind = "danger",
  onConfirm,
  onClose,
  children,
}) {
  const [problem, setProblem] = useState(/** @type {Problem | null} */ (null));
  const [isBusy, setBusy] = useState(false);
  const confirm = async () => {
    setBusy(true);
    setProblem(null);
    try {
      await onConfirm();
      onClose();
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      setProblem(error);
      setBusy(false);
    }
  };
  return html`<${Dialog} title=${title} onClose=${onClose}>
    <p class="confirm-count"><strong>${isAtLeast && "≥ "}<${Num} value=${count} /></strong> ${t("confirm.count", { count })}</p>
    ${children}
    <${ErrorBox} problem=${problem} />
    <footer><${Button} onClick=${onClose}>${t("cancel")}<//><${Button} kind=${kind} disabled=${isBusy || (count === 0 && !isAlways)} autofocus onClick=${confirm}>${verb} (${isAtLeast ? "≥ " : ""}${number(count)})<//></footer>
  <//>`;
}

/** @type {Set<(toast: {id: number, text: string, kind: string}) => void>} */
const toasters = new Set();
let toastId = 0;
/**
 * Says what was done, for a few seconds, politely.
 * @param {string} text
 * @param {"ok" | "bad"} [kind]
 */
export function toast(text, kind = "ok") {
  toastId += 1;
  for (const show of toasters) show({ id: toastId, text, kind });
}

export function Toasts() {
  const [all, setAll] = useState(/** @type {{id: number, text: string, kind: string}[]} */ ([]));
  useEffect(() => {
    const show = (/** @type {any} */ one) => {
      setAll((/** @type {any[]} */ old) => [...old.slice(-3), one]);
      setTimeout(
        () => setAll((/** @type {any[]} */ old) => old.filter((other) => other.id !== one.id)),
        6000,
      );
    };
    toasters.add(show);
    return () => void toasters.delete(show);
  }, []);
  return html`<div class="toasts" role="status" aria-live="polite">${all.map((one) => html`<p key=${one.id} class=${`toast ${one.kind}`}>${one.text}</p>`)}</div>`;
}

/**
 * Runs `act`, says `done` or the problem. For small actions without a dialog.
 * @param {() => Promise<unknown>} act
 * @param {string} done
 * @returns {Promise<boolean>} Whether it was done.
 */
export async function attempt(act, done) {
  try {
    await act();
    if (done) toast(done);
    return true;
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    const fields = untold(error)
      .map((field) => `${field.loc.join(".")}: ${field.msg}`)
      .join("; ");
    toast(
      visible(
        [error.status ? error.title : t("error.no_answer"), error.detail, fields].filter(Boolean).join(" · "),
      ),
      "bad",
    );
    return false;
  }
}

// --- forms

/**
 * A labelled control with its hint and the problem of its field.
 * @param {{label: string, hint?: Node, problem?: Problem | null, path?: string, children: (attributes: Record<string, any>) => Node}} props
 *   `path`: of the field in the problem's errors, joined by dots; a `body.` before it does not matter.
 */
export function Field({ label, hint, problem, path, children }) {
  const id = useId();
  const errors = path ? fieldErrors(problem, path) : [];
  const described = [hint && `${id}-hint`, errors.length > 0 && `${id}-error`].filter(Boolean).join(" ");
  return html`<div class=${`field ${errors.length ? "invalid" : ""}`}><label for=${id}>${label}</label>
    ${children({ id, "aria-describedby": described || undefined, "aria-invalid": errors.length > 0 ? "true" : undefined })}
    ${hint && html`<p class="hint" id=${`${id}-hint`}>${hint}</p>`}
    ${errors.length > 0 && html`<p class="field-error" id=${`${id}-error`}>${visible(errors.join("; "))}</p>`}</div>`;
}

/**
 * @param {Problem | null | undefined} problem
 * @param {string} path
 * @returns {string[]}
 */
export function fieldErrors(problem, path) {
  return (problem?.errors ?? [])
    .filter((error) => {
      const loc = error.loc.join(".").replace(/^(body|query)\./, "");
      return loc === path || loc.startsWith(path + ".");
    })
    .map((error) => error.msg);
}

// --- choosing

/**
 * Links that look like tabs: each is an address of its own.
 * @param {{label: string, tabs: {key: string, label: Node, count?: number | null | undefined, href: string, kind?: string}[], current: string}} props
 */
export function Tabs({ label, tabs, current }) {
  return html`<nav class="tabs" aria-label=${label}><ul>${tabs.map(
    (tab) => html`<li key=${tab.key}>
    <a href=${tab.href} class=${tab.kind ?? ""} aria-current=${tab.key === current ? "page" : undefined}>${tab.label}${tab.count !== undefined && html` <span class="count"><${Num} value=${tab.count} /></span>`}</a></li>`,
  )}</ul></nav>`;
}

/** @param {{hasNext: boolean, hasBefore?: boolean, onNext: () => void, onFirst?: () => void, isLoading?: boolean}} props */
export function Pager({ hasNext, hasBefore = false, onNext, onFirst, isLoading = false }) {
  if (!hasNext && !hasBefore) return null;
  return html`<nav class="pager" aria-label=${t("pager")}>
    ${hasBefore && html`<${Button} onClick=${onFirst}>${t("pager.first")}<//>`}
    <${Button} disabled=${!hasNext || isLoading} onClick=${onNext}>${t("pager.next")}<//></nav>`;
}

/**
 * A share as a bar. `kind` is told by what it means, not by the share.
 * @param {{value: number, of: number, label: string, kind?: "ok" | "warn" | "bad" | "info"}} props
 */
export function Bar({ value, of, label, kind = "info" }) {
  const share = of > 0 ? Math.min(1, value / of) : 0;
  return html`<span class=${`bar bar-${kind}`} role="img" aria-label=${`${label}: ${number(value)} / ${number(of)}`} title=${`${number(value)} / ${number(of)}`}>
    <span style=${{ width: `${(share * 100).toFixed(1)}%` }}></span></span>`;
}

// --- tables

/**
 * @typedef {object} Column
 * @property {string} key
 * @property {Node} label
 * @property {(row: any) => Node} render
 * @property {"end"} [align] For numbers.
 * @property {1 | 2 | 3 | 4} [priority] 2 is hidden on phones, 3 below a wide window, 4 below a very wide one.
 * @property {string} [sort] Its word for `onSort`.
 */

/**
 * A table whose rows can be walked by j and k, opened by Enter and selected by x.
 * @param {{caption: string, columns: Column[], rows: any[], rowKey: (row: any) => string, onOpen?: (row: any) => void, rowClass?: (row: any) => string,
 *   selected?: Set<string>, onSelect?: (selected: Set<string>) => void, sort?: string, onSort?: (sort: string) => void, empty?: Node, label?: (row: any) => string}} props
 */
export function Table({
  caption,
  columns,
  rows,
  rowKey,
  onOpen,
  rowClass,
  selected,
  onSelect,
  sort,
  onSort,
  empty,
  label,
}) {
  const body = useRef(/** @type {HTMLElement | null} */ (null));
  const lastPicked = useRef(/** @type {string | null} */ (null));
  const keys = useMemo(() => rows.map(rowKey), [rows]);
  const toggle = useCallback(
    (/** @type {string} */ key, /** @type {boolean} */ isRange) => {
      if (!selected || !onSelect) return;
      const next = new Set(selected);
      const from = isRange && lastPicked.current ? keys.indexOf(lastPicked.current) : -1;
      const to = keys.indexOf(key);
      if (from >= 0) for (const one of keys.slice(Math.min(from, to), Math.max(from, to) + 1)) next.add(one);
      else if (!next.delete(key)) next.add(key);
      lastPicked.current = key;
      onSelect(next);
    },
    [selected, onSelect, keys],
  );
  const focused = () =>
    /** @type {HTMLElement[]} */ ([...(body.current?.children ?? [])]).findIndex((row) =>
      row.contains(document.activeElement),
    );
  const focus = (/** @type {number} */ at) =>
    /** @type {HTMLElement | undefined} */ (body.current?.children[at])?.focus();
  useKeys({
    j: () => focus(Math.min(keys.length - 1, focused() + 1)),
    k: () => focus(Math.max(0, focused() - 1)),
    ...(onSelect && {
      x: () => {
        const key = keys[focused()];
        if (key) toggle(key, false);
      },
    }),
  });
  if (rows.length === 0 && empty) return empty;
  const isAll = Boolean(selected) && keys.length > 0 && keys.every((key) => selected?.has(key));
  return html`<div class="table-box" tabindex="0" role="region" aria-label=${caption}><table><caption class="sr">${caption}</caption>
    <thead><tr>${
      onSelect &&
      html`<th scope="col" class="pick"><label class="pick-box"><input type="checkbox" aria-label=${t("select.page")} checked=${isAll}
        onChange=${() => {
          const next = new Set(selected);
          for (const key of keys) {
            if (isAll) next.delete(key);
            else next.add(key);
          }
          onSelect(next);
        }} /></label></th>`
    }
      ${columns.map(
        (
          column,
        ) => html`<th key=${column.key} scope="col" class=${columnClass(column)} aria-sort=${column.sort && sort === column.sort ? "descending" : undefined}>
        ${column.sort && onSort ? html`<button type="button" class="sort" onClick=${() => onSort(/** @type {string} */ (column.sort))}>${column.label}${sort === column.sort ? " ▾" : ""}</button>` : column.label}</th>`,
      )}</tr></thead>
    <tbody ref=${body}>${rows.map((row, at) => {
      const key = keys[at] ?? "";
      const isPicked = selected?.has(key) ?? false;
      return html`<tr key=${key} tabindex="-1" class=${`${rowClass?.(row) ?? ""} ${isPicked ? "picked" : ""} ${onOpen ? "opens" : ""}`} aria-selected=${onSelect ? String(isPicked) : undefined}
          onKeyDown=${(/** @type {KeyboardEvent} */ e) => {
            if (e.key === "Enter" && e.target === e.currentTarget && onOpen) onOpen(row);
          }}
          onClick=${(/** @type {MouseEvent} */ e) => {
            if (onOpen && !isControl(e.target) && !hasSelection()) onOpen(row);
          }}>
        ${
          onSelect &&
          html`<td class="pick"><label class="pick-box"><input type="checkbox" aria-label=${t("select.row", { name: visible(label?.(row) ?? key) })} checked=${isPicked}
          onClick=${(/** @type {MouseEvent} */ e) => {
            e.stopPropagation();
            toggle(key, e.shiftKey);
          }} /></label></td>`
        }
        ${columns.map((column) => html`<td key=${column.key} class=${columnClass(column)}>${column.render(row)}</td>`)}</tr>`;
    })}</tbody></table></div>`;
}

/** @param {Column} column */
function columnClass(column) {
  return `col-${column.key} ${column.align === "end" ? "end" : ""} ${column.priority ? `p${column.priority}` : ""}`;
}

/** @param {EventTarget | null} target */
function isControl(target) {
  return (
    target instanceof Element && target.closest("a, button, input, select, textarea, label, summary") !== null
  );
}

function hasSelection() {
  return (window.getSelection()?.toString() ?? "") !== "";
}

/**
 * Whether rows must keep still: while the pointer or the focus is in the table.
 * @returns {{isHeld: boolean, bind: Record<string, any>}} `bind`: attributes for an element around the table.
 */
export function useHold() {
  const [isOver, setOver] = useState(false);
  const [isFocused, setFocused] = useState(false);
  return {
    isHeld: isOver || isFocused,
    bind: {
      onPointerEnter: (/** @type {PointerEvent} */ e) => {
        if (e.pointerType === "mouse") setOver(true);
      },
      onPointerLeave: () => setOver(false),
      onFocusIn: () => setFocused(true),
      onFocusOut: (/** @type {FocusEvent} */ e) => {
        if (
          !(e.relatedTarget instanceof globalThis.Node) ||
          !(/** @type {Element} */ (e.currentTarget).contains(e.relatedTarget))
        )
          setFocused(false);
      },
    },
  };
}

/**
 * Rows that do not move while they are held: those that are shown are brought up to date where they stand, and new ones
 * are counted.
 * @param {any[]} rows The newest.
 * @param {(row: any) => string} rowKey
 * @param {boolean} isHeld
 * @param {string} of What is listed: when it changes, nothing is held back.
 * @returns {{rows: any[], newCount: number, showNew: () => void}}
 */
export function useSteadyRows(rows, rowKey, isHeld, of) {
  const shown = useRef({ rows, of });
  const [, redraw] = useState(0);
  if (!isHeld || shown.current.of !== of || shown.current.rows.length === 0) shown.current = { rows, of };
  const newest = new Map(rows.map((row) => [rowKey(row), row]));
  const known = new Set(shown.current.rows.map(rowKey));
  return {
    rows: shown.current.rows.map((row) => newest.get(rowKey(row)) ?? row),
    newCount: rows.filter((row) => !known.has(rowKey(row))).length,
    showNew: () => {
      shown.current = { rows, of };
      redraw((/** @type {number} */ n) => n + 1);
    },
  };
}

/** @param {{count: number, onShow: () => void}} props */
export function NewRows({ count, onShow }) {
  return html`<div class="new-rows" aria-live="polite">${count > 0 && html`<${Button} kind="primary" onClick=${onShow}>${t("rows.new", { count })}<//>`}</div>`;
}

// --- keys

/** @type {{keys: Record<string, () => void>}[]} */
const keyLayers = [];
/** @returns {readonly {keys: Record<string, () => void>}[]} Those of the newest component last. */
export const keysInForce = () => keyLayers;

/** @param {Record<string, () => void>} keys What keys do while the component is shown; `g j` is one after the other. */
export function useKeys(keys) {
  const layer = useRef({ keys });
  layer.current.keys = keys;
  useEffect(() => {
    const own = layer.current;
    keyLayers.push(own);
    return () => void keyLayers.splice(keyLayers.indexOf(own), 1);
  }, []);
}

// --- values

/**
 * A value as JSON carries it: binary `{"$bin": base64}` and extension values `{"$ext": [code, base64]}` as bytes.
 * @param {{value: unknown, label: string}} props
 */
export function Value({ value, label }) {
  const [mode, setMode] = useState("tree");
  return html`<div class="value"><div class="value-tools" role="group" aria-label=${label}>
      <${Button} class="small" aria-pressed=${String(mode === "tree")} onClick=${() => setMode("tree")}>${t("value.tree")}<//>
      <${Button} class="small" aria-pressed=${String(mode === "json")} onClick=${() => setMode("json")}>JSON<//>
      <${Copy} text=${() => toJson(value, 2)} label=${t("copy.json")} /></div>
    <div class="value-body" tabindex="0" role="region" aria-label=${label}>${mode === "json" ? html`<pre><${Text} value=${toJson(value, 2)} max=${20_000} isBlock /></pre>` : html`<${Tree} value=${value} depth=${0} />`}</div></div>`;
}

const MAX_SHOWN = 100;

/** @param {{value: any, depth: number}} props */
function Tree({ value, depth }) {
  const [shown, setShown] = useState(MAX_SHOWN);
  if (value === null) return html`<span class="v-null">null</span>`;
  if (typeof value === "boolean") return html`<span class="v-bool">${String(value)}</span>`;
  if (typeof value === "number" || typeof value === "bigint")
    return html`<span class="v-num">${String(value)}</span>`;
  if (typeof value === "string")
    return html`<span class="v-text">"<${Text} value=${value} max=${1000} isBlock />"</span>`;
  const packed = packedBytes(value);
  if (packed) return html`<${Binary} ...${packed} />`;
  const entries = Array.isArray(value)
    ? value.map((member, i) => /** @type {[string | number, any]} */ ([i, member]))
    : Object.entries(value);
  if (entries.length === 0) return html`<span class="v-null">${Array.isArray(value) ? "[]" : "{}"}</span>`;
  const list = html`<ul class="tree">${entries.slice(0, shown).map(([key, member]) => html`<li key=${key}><span class="v-key">${typeof key === "number" ? key : html`<${Text} value=${key} max=${200} />`}</span> <${Tree} value=${member} depth=${depth + 1} /></li>`)}
    ${entries.length > shown && html`<li><button type="button" class="link" onClick=${() => setShown(shown + 10 * MAX_SHOWN)}>${t("text.more_items", { count: entries.length - shown })}</button></li>`}</ul>`;
  const size = Array.isArray(value) ? `[${entries.length}]` : `{${entries.length}}`;
  return depth === 0 ? list : html`<details open=${depth < 3}><summary>${size}</summary>${list}</details>`;
}

/**
 * @param {any} value
 * @returns {{bytes: Uint8Array, code: number | null} | null} Of `$bin` and `$ext`; null for anything else.
 */
export function packedBytes(value) {
  const keys = Object.keys(value);
  if (keys.length !== 1) return null;
  try {
    if (typeof value.$bin === "string") return { bytes: fromBase64(value.$bin), code: null };
    if (Array.isArray(value.$ext) && typeof value.$ext[1] === "string")
      return { bytes: fromBase64(value.$ext[1]), code: Number(value.$ext[0]) };
  } catch {
    // A text that only looks like base64 is shown as what it is.
  }
  return null;
}

/** @param {string} text */
function fromBase64(text) {
  return Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
}

/** @param {{bytes: Uint8Array, code: number | null}} props */
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
    const url = URL.createObjectURL(
      new Blob([/** @type {any} */ (bytes)], { type: "application/octet-stream" }),
    );
    const link = document.createElement("a");
    link.href = url;
    link.download = "value.bin";
    link.click();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
  };
  return html`<span class="binary"><${Badge}>${code === null ? t("value.binary") : t("value.ext", { code: String(code) })}<//> <${Bytes} value=${bytes.length} />
    <button type="button" class="link" onClick=${save}>${t("value.save")}</button>
    ${bytes.length > 0 && html`<pre class="hex">${lines.join("\n")}</pre>`}
    ${bytes.length > rows * 16 && html`<button type="button" class="link" onClick=${() => setRows(rows * 8)}>${t("text.more", { count: bytes.length - rows * 16 })}</button>`}</span>`;
}

// --- charts

/**
 * The ticks of a time axis in UTC: hours and minutes, or days where they are a day apart.
 * @param {any} _plot
 * @param {number[]} ticks Unix seconds.
 * @param {number} _axis
 * @param {number} _space
 * @param {number} stepS
 */
function clockOf(_plot, ticks, _axis, _space, stepS) {
  return ticks.map((tick) => {
    const iso = new Date(tick * 1000).toISOString();
    return stepS >= 86_400 ? iso.slice(5, 10) : iso.slice(11, 16);
  });
}

/**
 * Points between two gaps, of which no line would tell.
 * @param {any} plot
 * @param {number} at Of the series.
 * @returns {number[]}
 */
function lonePoints(plot, at) {
  const values = /** @type {(number | null)[]} */ (plot.data[at]);
  return values.flatMap((value, i) =>
    value !== null && (values[i - 1] ?? null) === null && (values[i + 1] ?? null) === null ? [i] : [],
  );
}

// Ticks of durations stand at round ones: at minutes, not at 100 s.
const DURATION_STEPS_MS = [
  ...[0.1, 1, 10, 100].flatMap((ten) => [ten, 2 * ten, 5 * ten]),
  ...[1, 2, 5, 10, 15, 30].map((seconds) => seconds * 1000),
  ...[1, 2, 5, 10, 15, 30].map((minutes) => minutes * 60_000),
  ...[1, 2, 3, 6, 12, 24, 48, 96, 240, 480].map((hours) => hours * 3_600_000),
];

/**
 * Room for the longest label of an axis, in px: durations such as `1 min 40 s` are long.
 * @param {any} _
 * @param {string[] | null} labels
 */
function widthOfLabels(_, labels) {
  return Math.max(48, 16 + 7 * Math.max(0, ...(labels ?? []).map((label) => label.length)));
}

/**
 * Lines or stacked areas over time.
 * @param {{label: string, xs: number[], series: {label: string, color: string, values: (number | null)[]}[], format?: (value: number) => string, isStacked?: boolean, height?: number}} props
 *   `xs`: Unix seconds. `color`: the name of a CSS variable such as `--succeeded`.
 */
export function Chart({
  label,
  xs,
  series,
  format = (value) => number(value, { maximumFractionDigits: 2 }),
  isStacked = false,
  height = 200,
}) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const plot = useRef(/** @type {any} */ (null));
  const [theme] = usePref("theme", "auto");
  const [isDark, setDark] = useState(() => matchMedia("(prefers-color-scheme: dark)").matches);
  useEffect(() => {
    const query = matchMedia("(prefers-color-scheme: dark)");
    const change = () => setDark(query.matches);
    query.addEventListener("change", change);
    return () => query.removeEventListener("change", change);
  }, []);
  const data = useMemo(() => {
    if (!isStacked) return [xs, ...series.map((one) => one.values)];
    // Upon each other, the first at the bottom; the uppermost sum is drawn first, so that the lower ones cover it.
    const sums = xs.map(() => 0);
    const stacked = series.map((one) =>
      one.values.map((value, i) => (sums[i] = (sums[i] ?? 0) + (value ?? 0))),
    );
    return [xs, ...stacked.reverse()];
  }, [xs, series, isStacked]);
  const latest = useRef(data);
  latest.current = data;
  const shape = series.map((one) => `${one.label}|${one.color}`).join();
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const styles = getComputedStyle(element);
    const css = (/** @type {string} */ name) => styles.getPropertyValue(name).trim();
    const ordered = isStacked ? [...series].reverse() : series;
    const axis = {
      stroke: css("--muted"),
      grid: { stroke: css("--grid"), width: 1 },
      ticks: { show: false },
      font: "12px system-ui, sans-serif",
    };
    const made = new uPlot(
      {
        width: element.clientWidth || 300,
        height,
        legend: { show: false },
        cursor: { y: false, drag: { x: false, y: false } },
        padding: [8, 18, 0, 0],
        scales: {
          x: { time: true },
          y: {
            range: (/** @type {any} */ _, /** @type {number} */ low, /** @type {number} */ high) => [
              Math.min(0, low ?? 0),
              Math.max(high ?? 0, 1e-3) * 1.08,
            ],
          },
        },
        tzDate: (/** @type {number} */ ts) => uPlot.tzDate(new Date(ts * 1e3), "Etc/UTC"),
        axes: [
          { ...axis, space: 60, size: 28, values: clockOf },
          {
            ...axis,
            size: widthOfLabels,
            ...(format === durationText && { incrs: DURATION_STEPS_MS }),
            values: (/** @type {any} */ _, /** @type {number[]} */ ticks) =>
              ticks.map((tick) => format(tick)),
          },
        ],
        series: [
          {},
          ...ordered.map((one) => ({
            label: one.label,
            stroke: css(one.color),
            width: isStacked ? 1 : 2,
            ...(isStacked && { fill: css(one.color) }),
            points: isStacked ? { show: false } : { show: true, size: 5, filter: lonePoints },
          })),
        ],
        hooks: { setCursor: [(/** @type {any} */ u) => setAt(u.cursor.idx ?? null)] },
      },
      /** @type {any} */ (latest.current),
      element,
    );
    plot.current = made;
    const resize = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height }));
    resize.observe(element);
    return () => {
      resize.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [shape, theme, isDark, isStacked, height, language()]);
  useEffect(() => {
    plot.current?.setData(data);
  }, [data]);
  const [at, setAt] = useState(/** @type {number | null} */ (null));
  const index = at !== null && at < xs.length ? at : xs.length - 1;
  const value = (/** @type {{values: (number | null)[]}} */ one) => {
    const v = one.values[index];
    return v === null || v === undefined ? "–" : format(v);
  };
  return html`<figure class="chart"><figcaption class="legend"><span class="legend-at">${xs[index] === undefined ? "" : utcText((xs[index] ?? 0) * 1000)}</span>
      ${series.map((one) => html`<span key=${one.label} class="legend-item"><i style=${{ background: `var(${one.color})` }} aria-hidden="true"></i>${one.label} <b class="num">${value(one)}</b></span>`)}</figcaption>
    <div class="plot" ref=${box} role="img" aria-label=${`${label}. ${series.map((one) => `${one.label}: ${value(one)}`).join(", ")}`}></div></figure>`;
}
