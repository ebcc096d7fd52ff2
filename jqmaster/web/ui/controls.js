/** Buttons, messages, tabs and bars. */
import { Problem } from "../core/api.js";
import { number, t } from "../core/i18n.js";
import { html, useState } from "../core/lib.js";
import { usePref } from "../core/prefs.js";
import { pieces, visible } from "../core/text.js";
import { Num, Text, clockText, nowMs } from "./formats.js";

/** @typedef {import("../core/lib.js").Node} Node */

/**
 * A button.
 * @param {{kind?: string, class?: string, opensDialog?: boolean, children?: Node} & Record<string, unknown>} props
 *   `kind`: "primary", "danger" or none. `opensDialog`: the button opens a dialog, and its label ends with dots.
 */
export function Button({ kind = "", class: more = "", opensDialog = false, children, ...rest }) {
  return html`<button
      type="button" class=${`button ${kind} ${more}`} aria-haspopup=${opensDialog ? "dialog" : undefined}
      ...${rest}>
      ${children}${opensDialog && "…"}
    </button>`;
}

/** @param {{text: string | (() => string), label?: string, kind?: string}} props The button that copies the text and then says that it did. */
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
  return html`<button type="button" class=${`button small ${kind}`} onClick=${copy}>
      ${said || label || t("copy")}<span class="sr" aria-live="polite">${said}</span>
    </button>`;
}

/** @param {{children?: Node}} props A menu of ways to copy one object. */
export function CopyMenu({ children }) {
  return html`<details class="menu"><summary class="button small">${t("copy")}</summary><div class="menu-items">${children}</div></details>`;
}

/** @param {{label: string, children?: Node}} props A menu of actions that are seldom needed. Choosing one closes the menu. */
export function MoreMenu({ label, children }) {
  const close = (/** @type {MouseEvent} */ event) => {
    if (event.target instanceof Element && event.target.closest("button, a"))
      event.target.closest("details")?.removeAttribute("open");
  };
  return html`<details class="menu more-menu">
      <summary class="button small">${label}</summary><div class="menu-items" onClick=${close}>${children}</div>
    </details>`;
}

/** @param {string} text Copies the text on pages without a secure origin, where browsers have no clipboard API. */
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

/** @param {Problem} problem Returns the errors that the problem's `detail` does not mention. */
export function untold(problem) {
  return problem.errors.filter((error) => !problem.detail.includes(error.msg));
}

/** @param {{problem: Problem | null | undefined, onRetry?: () => void}} props A problem's title, detail and fields. */
export function ErrorBox({ problem, onRetry }) {
  const [mode] = usePref("times", "relative");
  if (!problem) return null;
  const isSilent = problem.status === 0;
  const others = untold(problem);
  const { shownAsOfMs } = problem;
  return html`<div class=${`error-box ${shownAsOfMs === null ? "" : "over-old"}`} role="alert">
      <p>
        <strong>${isSilent ? t("error.no_answer") : visible(problem.title)}</strong>
        ${problem.detail && html` <${Text} value=${problem.detail} max=${600} />`}
      </p>
      ${
        others.length > 0 &&
        html`<ul>${others.slice(0, 50).map((error) => html`<li><code>${visible(error.loc.join("."))}</code> <${Text} value=${error.msg} /></li>`)}</ul>`
      }
      ${
        problem.code &&
        html`<p class="muted small">${problem.status || ""} <code>${visible(problem.code)}</code></p>`
      }
      ${
        shownAsOfMs !== null &&
        html`<p>${t("fresh.shown", { time: clockText(shownAsOfMs - Date.now() + nowMs(), mode) })}</p>`
      }
      ${onRetry && html`<${Button} onClick=${onRetry}>${t("error.retry")}<//>`}
    </div>`;
}

/** @param {{title: string, children?: Node, curl?: string}} props The text in place of an empty list. It says what to do. */
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
 * @typedef {{key: string, label: Node, count?: number | null | undefined, isAtLeast?: boolean, href: string, kind?: string}} Tab
 */

/** @param {{label: string, tabs: Tab[], current: string}} props Links that look like tabs. Each has its own address. */
export function Tabs({ label, tabs, current }) {
  return html`<nav class="tabs" aria-label=${label}>
      <ul>
        ${tabs.map(
          (tab) => html`<li key=${tab.key}>
              <a
                href=${tab.href} class=${tab.kind ?? ""}
                aria-current=${tab.key === current ? "page" : undefined}>
                ${tab.label}
                ${
                  tab.count !== undefined &&
                  html` <span class="count"><${Num} value=${tab.count} />${tab.isAtLeast && "+"}</span>`
                }
              </a>
            </li>`,
        )}
      </ul>
    </nav>`;
}

/** @param {{hasNext: boolean, hasBefore?: boolean, onNext: () => void, onFirst?: () => void, isLoading?: boolean}} props */
export function Pager({ hasNext, hasBefore = false, onNext, onFirst, isLoading = false }) {
  if (!hasNext && !hasBefore) return null;
  return html`<nav class="pager" aria-label=${t("pager")}>
    ${hasBefore && html`<${Button} onClick=${onFirst}>${t("pager.first")}<//>`}
    <${Button} disabled=${!hasNext || isLoading} onClick=${onNext}>${t("pager.next")}<//></nav>`;
}

/**
 * A share as a bar. `kind` depends on what the bar means, not on the share.
 * @param {{value: number, of: number, label: string, kind?: "ok" | "warn" | "bad" | "info"}} props
 */
export function Bar({ value, of, label, kind = "info" }) {
  const share = of > 0 ? Math.min(1, value / of) : 0;
  return html`<span
      class=${`bar bar-${kind}`} role="img" aria-label=${`${label}: ${number(value)} / ${number(of)}`}
      title=${`${number(value)} / ${number(of)}`}>
      <span style=${{ width: `${(share * 100).toFixed(1)}%` }}></span>
    </span>`;
}
