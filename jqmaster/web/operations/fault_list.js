/** The list of findings at the top of the Overview. Acknowledged and snoozed findings are folded away. */
import { html, useEffect, useRef, useState } from "../core/lib.js";
import { Problem } from "../core/api.js";
import { t } from "../core/i18n.js";
import { Button, ErrorBox } from "../ui/controls.js";
import { SnoozeDialog, useSnoozed } from "./snoozes.js";
import { usePref } from "../core/prefs.js";
import { findingText, linkOf } from "./findings.js";
import { RunbookLink } from "./runbook_link.js";
import { Badge } from "../ui/formats.js";
import { Icon } from "../ui/icons.js";

/** @typedef {import("./findings.js").Finding} Finding */

const MIN_FAULT_ROWS = 2;
// If there are more faults than this, each is shown on one line.
const MAX_TALL_FAULTS = 3;
const FORGET_MS = 15_000;

/**
 * @param {{findings: Finding[], isAnswered: boolean, isKnown: boolean, problem: Problem | null}} props `isAnswered`:
 *   the master has sent its findings at least once. `isKnown`: the findings are up to date.
 */
export function Faults({ findings: found, isAnswered, isKnown, problem }) {
  const [known, setKnown] = usePref("acknowledged", []);
  const acknowledged = Array.isArray(known) ? known : [];
  const keys = found.map((finding) => finding.key);
  // Forget an acknowledgement when its fault has ended, so that the fault is shown if it returns.
  const over = acknowledged.filter((key) => !keys.includes(key)).join();
  useEffect(() => {
    if (!over || !isKnown) return undefined;
    const timer = setTimeout(() => setKnown(acknowledged.filter((key) => keys.includes(key))), FORGET_MS);
    return () => clearTimeout(timer);
  }, [over, isKnown]);
  const snoozed = useSnoozed();
  const [snoozing, setSnoozing] = useState(/** @type {Finding | null} */ (null));
  const shown = found.filter((fault) => !acknowledged.includes(fault.key));
  const faults = shown.filter((fault) => !snoozed.has(fault.key));
  const hidden = found.length - shown.length;
  const asleep = shown.length - faults.length;
  // The number of rows for which space is reserved: at least two, and at least as many as were shown before. The
  // content below the list then does not jump.
  const rows = useRef(MIN_FAULT_ROWS);
  rows.current = Math.max(rows.current, faults.length);
  return html`<section
      class=${`faults ${rows.current > MAX_TALL_FAULTS ? "many" : ""}`}
      style=${{ "--rows": String(rows.current) }} aria-label=${t("overview.wrong")} aria-live="polite"
      aria-busy=${String(!isAnswered)}>
      <${ErrorBox} problem=${problem} />
      ${
        faults.length === 0
          ? isAnswered
            ? html`<p class="all-well"><span aria-hidden="true">✓</span> ${t("overview.well")}</p>`
            : !problem && html`<p class="all-well">${t("loading")}</p>`
          : html`<ul>
              ${faults.map(
                (fault) =>
                  html`<${Fault}
                      key=${fault.key} fault=${fault} onSnooze=${() => setSnoozing(fault)}
                      onAcknowledge=${() => setKnown([...acknowledged, fault.key])} />`,
              )}
            </ul>`
      }${
        hidden > 0 &&
        html`<p class="muted">
            ${t("fault.acknowledged", { count: hidden })} <button
              type="button" class="link" onClick=${() => setKnown([])}>
              ${t("fault.show")}
            </button>
          </p>`
      }
      ${
        asleep > 0 &&
        html`<p class="muted">
            ${t("fault.snoozed", { count: asleep, until: snoozed.next() })} <button
              type="button" class="link" onClick=${snoozed.wake}>
              ${t("fault.show")}
            </button>
          </p>`
      }
      ${
        snoozing &&
        html`<${SnoozeDialog}
            fault=${{ key: snoozing.key, text: findingText(snoozing) }} onSnooze=${snoozed.add} onClose=${() => setSnoozing(null)} />`
      }
    </section>`;
}

/** @param {{fault: Finding, onAcknowledge: () => void, onSnooze: () => void}} props */
function Fault({ fault, onAcknowledge, onSnooze }) {
  return html`<li class=${`fault ${fault.severity}`}>
      <${Badge} kind=${fault.severity}>${t(`fault.${fault.severity}`)}<//>
      <span class="fault-text">${findingText(fault)}</span>
      <${RunbookLink} code=${fault.code} /><${CauseLink} finding=${fault} />
      <${Button} class="small" title=${t("fault.acknowledge")} onClick=${onAcknowledge}>
        <span class="fault-act">${t("fault.acknowledge")}</span><${Icon} name="check" />
      <//>
      <${Button} opensDialog class="small" title=${t("fault.snooze")} onClick=${onSnooze}>
        <span class="fault-act">${t("fault.snooze")}</span><${Icon} name="times" />
      <//>
    </li>`;
}

/** @param {{finding: Finding}} props */
function CauseLink({ finding }) {
  const link = linkOf(finding);
  return (
    link &&
    html`<a href=${link.href}><span class="fault-act">${link.act}</span><span aria-hidden="true"> →</span></a>`
  );
}
