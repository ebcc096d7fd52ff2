/** The age of the page's data: a word in the header, and a line at the top while no new data arrive. */
import { useFreshness } from "../core/freshness.js";
import { t } from "../core/i18n.js";
import { html, useEffect, useState } from "../core/lib.js";
import { liveStatus, useLiveStatus } from "../core/live.js";
import { usePref } from "../core/prefs.js";
import { visible } from "../core/text.js";
import { RunbookLink } from "../operations/runbook_link.js";
import { Badge, clockText, durationText, steadyMs } from "../ui/formats.js";

const LOST_GRACE_MS = 1500;
// If a master is silent for longer than this, the page says so. A shorter silence means that the master is busy.
const SILENT_MS = 8_000;

// The code of the fault, which is the name of its section in docs/runbooks.md.
const STORE_AWAY = { code: /** @type {const} */ ("store_away") };

/** @returns {string} The age of the page in words; "" while it is fresh. */
export function useOldness() {
  const { isOld, ageMs } = useFreshness();
  return isOld ? t("fresh.old", { duration: durationText(steadyMs(ageMs ?? 0)) }) : "";
}

/** Shows whether the figures of the page are fresh. "Live" means that they are fresh. It does not mean that a connection is open. */
export function Connection() {
  const status = useLiveStatus();
  const { isOld, isPartOld } = useFreshness();
  const oldness = useOldness();
  const isLive = status === "live";
  const kind = isLive && !isOld && !isPartOld ? "ok" : isLive || status === "lost" ? "bad" : "off";
  const [word, title] =
    isLive && isOld
      ? [oldness, t("fresh.old.title")]
      : isLive && isPartOld
        ? [t("fresh.part"), t("fresh.part.title")]
        : [t(`live.${status}`), t(`live.${status}.title`)];
  return html`<span class=${`connection ${kind}`} title=${title}><i aria-hidden="true"></i><span class="wide-only">${word}</span></span>`;
}

/** The first line of every page while its figures are old. It names the part that is away, and since when. */
export function FreshnessLine() {
  const { ageMs, asOf, isOld, fault } = useFreshness();
  const isLost = useLasting(useLiveStatus() === "lost");
  // Show since when the figures are old, and not their age: a screen reader could not finish announcing a text that
  // changes every second.
  const [mode] = usePref("times", "relative");
  const since = asOf ? ` ${t("fresh.since", { time: clockText(Date.parse(asOf), mode) })}` : "";
  return html`<div role="status" aria-live="polite">
      ${
        fault
          ? html`<p class="banner bad">
              <${Badge} kind="bad">${t("fault.bad")}<//> <span>
                ${t("fresh.store")}${since} <span class="muted">${visible(fault.detail)}</span>
              </span> <${RunbookLink} code=${STORE_AWAY.code} />
            </p>`
          : isLost
            ? html`<p class="banner"><span>${t("live.banner")}${since}</span></p>`
            : isOld &&
              (ageMs ?? 0) > SILENT_MS &&
              liveStatus() === "live" &&
              html`<p class="banner"><span>${t("fresh.silent")}${since}</span></p>`
      }
    </div>`;
}

/** @param {boolean} is @returns {boolean} Whether `is` has been true for a while. The change to another master is over in a moment. */
function useLasting(is) {
  const [isLasting, setLasting] = useState(false);
  useEffect(() => {
    setLasting(false);
    if (!is) return undefined;
    const timer = setTimeout(() => setLasting(true), LOST_GRACE_MS);
    return () => clearTimeout(timer);
  }, [is]);
  return is && isLasting;
}
