/** Sentences of the palette, such as "pause mail.send 30 min because the provider is down". */
import { endPause } from "../constraints/pause_dialog.js";
import { may, post } from "../core/api.js";
import { t } from "../core/i18n.js";
import { visible } from "../core/text.js";
import { attempt, toast } from "../ui/dialogs.js";
import { endOf } from "../ui/durations.js";
import { durationText, nowMs } from "../ui/formats.js";

/** @typedef {import("../core/api.js").Session} Session */
/** @typedef {import("../core/router.js").Route} Route */
/** @typedef {import("../constraints/pause_dialog.js").PauseTarget} PauseTarget */
/** @typedef {{target: PauseTarget, what: string}} Pausable */
/** @typedef {{key: string, kind: string, label: string, hint?: string, act: () => unknown, keepsOpen?: boolean}} Command */

/** `Pause NAME DURATION because REASON`. Without NAME, the sentence pauses the object of the page. */
const PAUSE = /^pause\b\s*(.*?)(?:\s+because\s+(.+))?$/i;
/** The same in Japanese: `NAME を 30 分 一時停止 (理由)`. */
const PAUSE_JA = /^(.*?)(?:一時)?停止(?:[\s(:：（]+(.+?)[)）]?)?$/;

/**
 * @param {string} text As it was typed.
 * @returns {string} The first word after "pause": a name or a duration. "" for other texts.
 */
export const subjectOf = (text) => wordsOf(text)?.words[0] ?? "";

/** @param {string} text */
function wordsOf(text) {
  const said = text.match(PAUSE) ?? text.match(PAUSE_JA);
  if (!said) return null;
  const [, rest = "", reason = ""] = said;
  return {
    words: rest
      .trim()
      .replace(/\s*を\s*/, " ")
      .split(/\s+/),
    reason,
  };
}

/** @param {string} name @returns {Pausable} */
export const nameToPause = (name) => ({
  target: { job_name: name },
  what: t("pause.what.name", { name: visible(name) }),
});

/** @param {string} name @returns {Pausable} */
const constraintToPause = (name) => ({
  target: { constraint: name },
  what: t("pause.what.constraint", { name: visible(name) }),
});

/**
 * @param {string} text As it was typed.
 * @param {{entries: import("./palette_index.js").Entry[], present: Pausable | null, session: Session, onPause: (pausable: Pausable) => void}} options
 * @returns {Command[]} The commands of a sentence. Empty for other texts.
 */
export function sentence(text, { entries, present, session, onPause }) {
  if (!may(session, "operate")) return [];
  const said = wordsOf(text);
  if (!said) return [];
  const { words, reason } = said;
  const [first = "", ...others] = words;
  const named = entries.find(
    (one) =>
      (one.kind === "name" || one.kind === "constraint") && one.id.toLowerCase() === first.toLowerCase(),
  );
  const what = named
    ? named.kind === "name"
      ? nameToPause(named.id)
      : constraintToPause(named.id)
    : present;
  const lasts = (named ? others : words).join(" ");
  if (what && !lasts) return [asking(what, onPause)];
  const end = endOf(lasts);
  if (!what || end === null) return [];
  const duration = durationText(Math.round((end - nowMs()) / 1000) * 1000);
  return [
    {
      key: "sentence",
      kind: t("palette.action"),
      label: t("palette.pause", { what: what.what, duration }),
      hint: visible(reason),
      act: () => pause(what, end, reason.trim()),
    },
  ];
}

/**
 * @param {Pausable} what
 * @param {(pausable: Pausable) => void} onPause
 * @returns {Command} The command that asks why and for how long, and then pauses.
 */
export const asking = (what, onPause) => ({
  key: "ask pause",
  kind: t("palette.action"),
  label: `${t("constraints.pause")}: ${what.what}…`,
  act: () => onPause(what),
  keepsOpen: true,
});

/** @param {Pausable} pausable @param {number} end Unix ms. @param {string} reason */
async function pause({ target, what }, end, reason) {
  let name = "";
  const body = { ...target, reason, duration_s: Math.max(1, Math.round((end - nowMs()) / 1000)) };
  const isDone = await attempt(async () => ({ name } = await post("api/pauses", body)), "");
  if (isDone) toast(t("pause.begun", { what }), "ok", () => endPause(name));
}

/**
 * @param {Route} route
 * @returns {Pausable | null} The object that a pause on this page concerns.
 */
export function presentPausable({ page, query }) {
  const name = query["name"];
  if (!name) return null;
  if (page === "names" || page === "jobs") return nameToPause(name);
  return page === "constraints" ? constraintToPause(name) : null;
}
