/** The link from a fault to its runbook. */
import { html } from "../core/lib.js";
import { t } from "../core/i18n.js";
import { RUNBOOKS } from "./runbooks.js";

/** @type {Record<string, string>} */
const SECTIONS = RUNBOOKS;

/** @param {{code: string}} props The master serves the page of the runbooks, so the link works without access to other networks. */
export function RunbookLink({ code }) {
  if (!SECTIONS[code]) return null;
  return html`<a class="runbook" href=${`runbooks.html#${SECTIONS[code]}`} target="_blank" rel="noreferrer">
      <span class="fault-act">${t("fault.runbook")}</span><span aria-hidden="true"> ↗</span>
    </a>`;
}
