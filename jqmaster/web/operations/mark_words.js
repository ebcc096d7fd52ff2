/** Texts and links for entries of incidents and for marks. */
import { t, tOr } from "../core/i18n.js";
import { href } from "../core/router.js";
import { visible } from "../core/text.js";
import { pausedText } from "../constraints/pauses.js";
import { keyWords, shortId, whoText } from "../identity/value_words.js";
import { durationText, steadyMs } from "../ui/formats.js";

/** @typedef {import("../../answers").Schemas["IncidentEntryView"]} IncidentEntry */
/** @typedef {import("../../answers").Schemas["MarkView"]} Mark */
/** @typedef {{id: string, entries: IncidentEntry[]}} Incident */

/** @param {string} by The author. Empty: the reader may not see the author. */
const authorText = (by) => (by ? visible(whoText(by)) : t("mark.somebody"));

/** @param {IncidentEntry} entry @returns {string} */
export function entryText(entry) {
  const kind = entry.kind === "leader_changed" ? `leader_changed.${entry.cause || "ended"}` : entry.kind;
  const key = `incident.entry.${kind}`;
  if (!tOr(key, "")) return visible(entry.text);
  return t(key, {
    subject: visible(entry.subject),
    label: visible(entry.label),
    before: visible(entry.before || "–"),
    who: authorText(entry.by),
    count: entry.count,
    duration: durationText(steadyMs(Math.max(1000, Date.parse(entry.at) - Date.parse(entry.since)))),
  });
}

/** @param {IncidentEntry} entry @returns {{link: string, act: string} | null} A link to the object of the entry. */
export function entryLink({ kind, subject, label }) {
  switch (kind) {
    case "worker_lost":
    case "worker_back":
    case "jobs_returned":
      return { link: href("workers", { id: subject }), act: t("workers.one") };
    case "leader_changed":
      return { link: href("masters"), act: t("nav.masters") };
    case "backlog_old":
      return label ? { link: href("job", { id: label }), act: t("nav.job") } : null;
    case "version_new":
      return { link: href("workers", { group: "version" }), act: t("nav.workers") };
    default:
      return null;
  }
}

/** @param {Incident} incident @returns {string} A short text that says what happened. */
export function incidentTitle({ entries }) {
  const kinds = [...new Set(entries.map((entry) => entry.kind))];
  return kinds
    .map((kind) => tOr(`incident.title.${kind}`, ""))
    .filter(Boolean)
    .join(t("incident.arrow"));
}

/** @param {Mark} mark @returns {string} */
export function markText(mark) {
  if (mark.entry) return entryText(mark.entry);
  // Pauses are stored as constraints.
  const isPause = mark.kind === "pause" || mark.kind === "resume";
  const key = `mark.${isPause ? mark.kind : mark.action || mark.kind}`;
  if (!tOr(key, "")) return visible(mark.text);
  const how = mark.is_new ? `${key}.new` : mark.changed.length > 0 ? `${key}.of` : "";
  const text = t(how && tOr(how, "") ? how : key, {
    what: visible(mark.changed.map(keyWords).join(", ")),
    subject: isPause && mark.matcher ? pausedText(mark.matcher) : visible(mark.name ?? shortId(mark.subject)),
    who: authorText(mark.by),
  });
  return mark.reason ? `${text} “${visible(mark.reason).slice(0, 200)}”` : text;
}

/** @param {Mark} mark @returns {string | null} The address of the object of the mark. */
export function markLink({ kind, subject, entry, incident_id }) {
  if (incident_id) return href("incidents", { id: incident_id });
  if (entry) return entryLink(entry)?.link ?? null;
  switch (kind) {
    case "pause":
    case "resume":
    case "constraint":
      return href("constraints", { name: subject });
    case "definition":
      return href("definitions", { name: subject });
    case "worker":
      return href("workers", { id: subject });
    case "settings":
      return href("settings");
    case "acknowledged":
      return href("notices", { name: subject });
    default:
      return null;
  }
}
