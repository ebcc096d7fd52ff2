/** Faults that somebody hides for a while. They are shown again when the time is over, or when somebody requests it. */
import { t } from "../core/i18n.js";
import { html, useEffect } from "../core/lib.js";
import { pref, usePref } from "../core/prefs.js";
import { DurationField, endOf, unreadable } from "../ui/durations.js";
import { FormDialog } from "../ui/form_dialog.js";
import { clockText, durationText, nowMs } from "../ui/formats.js";
import { useForm } from "../ui/forms.js";

const DEFAULT_MS = 30 * 60_000;
const MOST = 200;

/**
 * @returns {{has: (key: string) => boolean, add: (key: string, untilMs: number) => void, wake: () => void, next: () => string}}
 *   `next`: returns, as text, the time at which the first hidden fault is shown again.
 */
export function useSnoozed() {
  const [known, setKnown] = usePref("snoozed", {});
  const all = Object.entries(known ?? {}).filter(([, until]) => typeof until === "number" && until > nowMs());
  const ends = all.map(([, until]) => Number(until));
  const first = Math.min(...ends);
  useEffect(() => {
    if (!Number.isFinite(first)) return undefined;
    const timer = setTimeout(
      () => setKnown(Object.fromEntries(all.filter(([, until]) => Number(until) > nowMs()))),
      Math.min(first - nowMs() + 100, 2 ** 31 - 1),
    );
    return () => clearTimeout(timer);
  }, [first]);
  const keys = new Set(all.map(([key]) => key));
  return {
    has: (key) => keys.has(key),
    add: (key, untilMs) => setKnown(Object.fromEntries([...all, [key, untilMs]].slice(-MOST))),
    wake: () => setKnown({}),
    next: () => (Number.isFinite(first) ? clockText(first, pref("times", "relative")) : ""),
  };
}

/** @param {{fault: {key: string, text: import("../core/lib.js").Node}, onSnooze: (key: string, untilMs: number) => void, onClose: () => void}} props */
export function SnoozeDialog({ fault, onSnooze, onClose }) {
  const form = useForm(null, () => ({ lasts: durationText(DEFAULT_MS) }));
  const save = async (/** @type {import("../ui/forms.js").Values} */ { lasts = "" }) => {
    const end = endOf(lasts);
    if (end === null) throw unreadable("lasts");
    onSnooze(fault.key, end);
    return t("fault.snooze.done", { time: clockText(end, pref("times", "relative")) });
  };
  return html`<${FormDialog} title=${t("fault.snooze.title")} form=${form} onClose=${onClose} onSave=${save} isNew saveLabel=${t("fault.snooze")}>
    <p><strong>${fault.text}</strong></p><p class="muted">${t("fault.snooze.text")}</p>
    <${DurationField} form=${form} name="lasts" label=${t("fault.snooze.for")} /><//>`;
}
