/** Personal data: find the data about a person in everything that jobs leave behind, and erase them from jobs. */
import { html, useEffect, useRef, useState } from "../../core/lib.js";
import { Problem, call } from "../../core/api.js";
import { number, t, tOr } from "../../core/i18n.js";
import { href } from "../../core/router.js";
import { Bar, Button, Empty, ErrorBox } from "../../ui/controls.js";
import { Badge, State, Text } from "../../ui/formats.js";
import { FormField, useForm } from "../../ui/forms.js";
import { Table } from "../../ui/tables.js";
import { EraseDialog } from "../erase_dialog.js";

/** @typedef {import("../../../answers").Schemas["PersonalDataMatch"]} Match */
/** @typedef {import("../../../answers").Schemas["PersonalDataAnswer"]} Part */
/** @typedef {{found: Match[], searched: Record<string, number>, unread: Record<string, number>, last: Part | null, isOver: boolean}} Outcome */

const KINDS = /** @type {const} */ (["jobs", "log_lines", "events", "failure_groups", "notices"]);
const UNREAD = /** @type {const} */ (["sealed_values", "damaged_jobs", "archived_logs"]);
/** @type {Outcome} */
const NOTHING = { found: [], searched: {}, unread: {}, last: null, isOver: false };

export function Page() {
  const form = useForm(null, () => ({ texts: "", reason: "" }));
  const [outcome, setOutcome] = useState(/** @type {Outcome | null} */ (null));
  const [problem, setProblem] = useState(/** @type {Problem | null} */ (null));
  const [erasing, setErasing] = useState(/** @type {Match | null} */ (null));
  const running = useRef(/** @type {AbortController | null} */ (null));
  const [isRunning, setRunning] = useState(false);
  useEffect(() => () => running.current?.abort(), []);
  const texts = (form.values["texts"] ?? "")
    .split("\n")
    .map((text) => text.trim())
    .filter(Boolean);
  const stop = () => running.current?.abort();
  const search = async (/** @type {Event} */ event) => {
    event.preventDefault();
    stop();
    const aborter = new AbortController();
    running.current = aborter;
    setRunning(true);
    setProblem(null);
    try {
      await searchAll(texts, form.values["reason"] ?? "", aborter.signal, setOutcome);
    } catch (error) {
      if (!aborter.signal.aborted) setProblem(error instanceof Problem ? error : new Problem(0, {}));
    } finally {
      if (running.current === aborter) setRunning(false);
    }
  };
  const erased = (/** @type {Match} */ match, /** @type {string[]} */ fields) =>
    setOutcome(
      (now) => now && { ...now, found: now.found.map((one) => (one === match ? without(one, fields) : one)) },
    );
  return html`<div class="page-head"><h1>${t("nav.personal_data")}</h1></div>
    <p>${t("personal.text")}</p>
    <form class="card stack" onSubmit=${search}>
      <${FormField}
        form=${form} name="texts" as="textarea" rows="3" path="texts" problem=${problem}
        label=${t("personal.texts")} hint=${t("personal.texts.hint")} spellcheck=${false} autocomplete="off" />
      <${FormField}
        form=${form} name="reason" path="reason" problem=${problem} label=${t("personal.reason")}
        hint=${t("personal.reason.hint")} maxlength="500" />
      <div class="row">
        <button class="button primary" disabled=${isRunning || texts.length === 0}>
          ${t("personal.search")}
        </button>
        ${isRunning && html`<${Button} onClick=${stop}>${t("personal.stop")}<//>`}
      </div>
    </form>
    <${ErrorBox} problem=${problem} />
    ${outcome && html`<${Found} outcome=${outcome} isRunning=${isRunning} onErase=${setErasing} />`}
    ${
      erasing &&
      html`<${EraseDialog}
          id=${erasing.id} fields=${erasing.fields} onClose=${() => setErasing(null)}
          onDone=${(/** @type {string[]} */ fields) => erased(erasing, fields)} />`
    }`;
}

/**
 * Search part by part, and report the total result after each part.
 * @param {string[]} texts
 * @param {string} reason
 * @param {AbortSignal} signal
 * @param {(outcome: Outcome) => void} tell
 */
async function searchAll(texts, reason, signal, tell) {
  let outcome = NOTHING;
  tell(outcome);
  /** @type {string | null} */
  let cursor = null;
  do {
    const body = { texts, reason, cursor };
    const part = /** @type {Part} */ (await call("POST", "api/personal-data/search", { body, signal }));
    const found = new Map([...outcome.found, ...part.found].map((one) => [`${one.place} ${one.id}`, one]));
    cursor = part.next_cursor;
    outcome = {
      found: [...found.values()],
      searched: sums(KINDS, outcome.searched, part.searched),
      unread: sums(UNREAD, outcome.unread, part.unread),
      last: part,
      isOver: cursor === null,
    };
    tell(outcome);
  } while (cursor !== null && !signal.aborted);
}

/** @param {readonly string[]} kinds @param {Record<string, number>} one @param {Record<string, number>} other */
const sums = (kinds, one, other) =>
  Object.fromEntries(kinds.map((kind) => [kind, (one[kind] ?? 0) + (other[kind] ?? 0)]));

/** @param {Match} match @param {string[]} fields @returns {Match} */
const without = (match, fields) => ({
  ...match,
  fields: match.fields.filter((field) => !fields.includes(field)),
});

/** @param {{outcome: Outcome, isRunning: boolean, onErase: (match: Match) => void}} props */
function Found({ outcome, isRunning, onErase }) {
  const { found, last } = outcome;
  /** @type {import("../../ui/tables.js").Column<Match>[]} */
  const columns = [
    { key: "place", label: t("personal.what"), render: Place, phone: "side" },
    { key: "object", label: t("personal.object"), render: Linked, phone: "main" },
    { key: "fields", label: t("personal.where"), render: Fields, phone: "line" },
    {
      key: "act",
      label: t("personal.act"),
      phone: "side",
      render: (/** @type {Match} */ one) =>
        one.erasable &&
        one.fields.length > 0 &&
        html`<${Button} class="small" opensDialog onClick=${() => onErase(one)}>${t("personal.erase.open")}<//>`,
    },
  ];
  const empty = html`<${Empty} title=${outcome.isOver ? t("personal.none") : t("personal.none.yet")} />`;
  return html`<section class="after" aria-labelledby="found">
      <h2 id="found">${t("personal.found", { count: found.length })}</h2>
      <div role="status">
        ${
          isRunning &&
          last &&
          html`<p>
              ${t("personal.progress", {
                done: number(outcome.searched["jobs"] ?? 0),
                total: number(last.total_jobs),
              })}
            </p>
            <${Bar}
              value=${outcome.searched["jobs"] ?? 0} of=${Math.max(1, last.total_jobs)}
              label=${t("personal.bar")} />`
        }
        ${!isRunning && !outcome.isOver && html`<p class="warn-text">${t("personal.stopped")}</p>`}
      </div>
      <${Table}
        caption=${t("personal.results")} columns=${columns} rows=${found}
        rowKey=${(/** @type {Match} */ one) => `${one.place} ${one.id}`} empty=${empty} />
      ${last && html`<${Extent} outcome=${outcome} last=${last} />`}
    </section>`;
}

/** @param {Match} match */
const Place = (match) =>
  html`<${Badge} kind="off">${t(`personal.place.${match.place}`)}<//>${match.state && html` <${State} state=${match.state} />`}`;

/** @param {Match} match */
function Linked(match) {
  const links = {
    job: () => href("job", { id: match.id }),
    event: () => href("events", { id: match.id }),
    failure_group: () => href("failures", { q: match.name }),
    notice: () => href("notices", { name: match.id }),
  };
  return html`<a href=${links[match.place]()}><${Text} value=${match.name} max=${60} /></a> ${
    match.place !== "notice" && html`<span class="muted small"><${Text} value=${match.id} max=${40} /></span>`
  }`;
}

/** @param {Match} match */
const Fields = (match) =>
  match.fields.length === 0
    ? html`<span class="muted">${t("personal.nothing_left")}</span>`
    : html`${match.fields.map(
        (field) => html`<code class="chip" key=${field}><${Text} value=${field} max=${80} /></code> `,
      )}
      ${match.more_fields > 0 && t("personal.more", { count: match.more_fields })}`;

/** @param {{outcome: Outcome, last: Part}} props The numbers of searched and of unreadable objects. */
function Extent({ outcome, last }) {
  const { searched, unread } = outcome;
  return html`<div class="card after">
      <h3>${t("personal.extent")}</h3>
      <dl class="facts">
        ${KINDS.map(
          (kind) =>
            html`<dt>${t(`personal.kind.${kind}`)}</dt><dd class="num">${number(searched[kind] ?? 0)}</dd>`,
        )}
      </dl>
      <h3>${t("personal.not_searched")}</h3>
      <ul>
        ${UNREAD.filter((kind) => unread[kind]).map(
          (kind) => html`<li key=${kind}>${t(`personal.unread.${kind}`, { count: unread[kind] ?? 0 })}</li>`,
        )}
        ${
          last.redacted.length > 0 &&
          html`<li>${t("personal.redacted")} ${last.redacted.map((path) => html`<code class="chip"><${Text} value=${path} max=${80} /></code> `)}</li>`
        }
        ${last.not_searched.map((text) => html`<li key=${text}>${tOr(`personal.not.${text}`, text)}</li>`)}
      </ul>
    </div>`;
}
