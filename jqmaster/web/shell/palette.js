/** The command palette (Ctrl K): pages, actions, and whatever the queue has under the typed name. */
import { get, may, post } from "../core/api.js";
import { titleOf } from "../batches/parts.js";
import { t } from "../core/i18n.js";
import { html, useEffect, useId, useRef, useState } from "../core/lib.js";
import { PauseDialog } from "../constraints/pause_dialog.js";
import { setPref } from "../core/prefs.js";
import { go } from "../core/router.js";
import { visible } from "../core/text.js";
import { Dialog, attempt, toast } from "../ui/dialogs.js";

/** @typedef {import("../core/lib.js").FieldEvent} FieldEvent */

/** @typedef {{key: string, kind: string, label: string, hint?: string, act: () => unknown, keepsOpen?: boolean}} Command */

const TYPING_MS = 200;
const MOST = 6;
const EVENTS_READ = 100;
const JOB_ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/**
 * @param {{entries: {page: import("../core/router.js").PageName}[], session: import("../core/api.js").Session, onHelp: () => void, onClose: () => void}} props
 */
export function Palette({ entries, session, onHelp, onClose }) {
  const id = useId();
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const [found, setFound] = useState(/** @type {Command[]} */ ([]));
  const [pausing, setPausing] = useState(/** @type {string | null} */ (null));
  const list = useRef(/** @type {HTMLElement | null} */ (null));
  const wanted = text.trim();
  useEffect(() => {
    setAt(0);
    if (!wanted) return setFound([]);
    const aborter = new AbortController();
    const timer = setTimeout(() => {
      search(wanted, session, setPausing, aborter.signal).then(
        (commands) => {
          if (!aborter.signal.aborted) setFound(commands);
        },
        () => {},
      );
    }, TYPING_MS);
    return () => {
      clearTimeout(timer);
      aborter.abort();
    };
  }, [wanted]);
  const sending = {
    key: "send",
    kind: t("palette.action"),
    label: t("events.send"),
    act: () => go("events", { send: "*" }),
  };
  const fixed = [
    ...entries.map(({ page }) => ({
      key: `page ${page}`,
      kind: t("palette.page"),
      label: t(`nav.${page}`),
      act: () => go(page),
    })),
    ...(may(session, "push") ? [sending] : []),
    ...settings(onHelp),
  ].filter((command) => command.label.toLowerCase().includes(wanted.toLowerCase()));
  /** @type {Command[]} */
  const commands = wanted ? [...fixed, ...found, searchJobs(wanted)] : fixed;
  const chosen = Math.min(at, commands.length - 1);
  const run = (/** @type {Command | undefined} */ command) => {
    if (!command) return;
    if (!command.keepsOpen) onClose();
    void command.act();
  };
  useEffect(() => {
    list.current?.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
  }, [chosen]);
  if (pausing !== null)
    return html`<${PauseDialog} target=${{ job_name: pausing }} what=${t("pause.what.name", { name: visible(pausing) })} onClose=${onClose} />`;
  const press = (/** @type {KeyboardEvent} */ event) => {
    if (event.isComposing) return;
    const step = /** @type {Record<string, number>} */ ({ ArrowDown: 1, ArrowUp: -1 })[event.key];
    if (step) setAt((chosen + step + commands.length) % commands.length);
    else if (event.key === "Enter") run(commands[chosen]);
    else return;
    event.preventDefault();
  };
  return html`<${Dialog} title=${t("palette")} onClose=${onClose}><div class="palette">
    <input type="search" name="command" autofocus role="combobox" aria-expanded="true" aria-controls=${`${id}-list`} aria-activedescendant=${`${id}-${chosen}`} aria-label=${t("palette.hint")} placeholder=${t("palette.hint")}
      maxlength="200" autocomplete="off" autocapitalize="none" spellcheck=${false} value=${text} onInput=${(/** @type {FieldEvent} */ e) => setText(e.target.value)} onKeyDown=${press} />
    <ul ref=${list} id=${`${id}-list`} role="listbox" aria-label=${t("palette")}>${commands.map(
      (
        command,
        place,
      ) => html`<li key=${command.key} id=${`${id}-${place}`} role="option" aria-selected=${String(place === chosen)} onClick=${() => run(command)} onPointerMove=${() => setAt(place)}>
        <span class="palette-kind">${command.kind}</span><span>${command.label}</span>${command.hint && html`<span class="muted small">${command.hint}</span>`}</li>`,
    )}</ul></div><//>`;
}

/** @param {string} text @returns {Command} */
const searchJobs = (text) => ({
  key: "search",
  kind: t("nav.jobs"),
  label: t("palette.search", { text: visible(text) }),
  act: () => (JOB_ID.test(text) ? go("job", { id: text.toLowerCase() }) : go("jobs", { q: text })),
});

/** @param {() => void} onHelp @returns {Command[]} What changes this browser alone. */
function settings(onHelp) {
  const command = (/** @type {string} */ key, /** @type {() => void} */ act) => ({
    key,
    kind: t("palette.action"),
    label: t(`palette.${key}`),
    act,
  });
  return [
    command("light", () => setPref("theme", "light")),
    command("dark", () => setPref("theme", "dark")),
    command("utc", () => setPref("times", "utc")),
    command("relative", () => setPref("times", "relative")),
    command("keys", onHelp),
  ];
}

/**
 * @param {string} text
 * @param {import("../core/api.js").Session} session
 * @param {(name: string) => void} onPause
 * @param {AbortSignal} signal
 * @returns {Promise<Command[]>} What the queue has under this text.
 */
async function search(text, session, onPause, signal) {
  const mayOperate = may(session, "operate");
  const fits = (/** @type {(string | null | undefined)[]} */ ...parts) =>
    parts.some((part) => part?.toLowerCase().includes(text.toLowerCase()));
  const [names, batches, workers, constraints, definitions, calendars, events, jobs] = await Promise.all([
    get("api/names", { q: text, limit: MOST }, signal),
    get("api/batches", { q: text, limit: MOST }, signal),
    get("api/workers", {}, signal),
    get("api/constraints", {}, signal),
    get("api/definitions", { q: text, limit: MOST }, signal),
    get("api/calendars", {}, signal),
    get("api/events", { limit: EVENTS_READ }, signal),
    get("api/jobs", { q: text, limit: MOST }, signal),
  ]);
  return [
    ...names.names.slice(0, MOST).flatMap(({ name }) => [
      {
        key: `name ${name}`,
        kind: t("job.name"),
        label: visible(name),
        act: () => go("names", { name }),
      },
      ...(mayOperate
        ? [
            {
              key: `pause ${name}`,
              kind: t("palette.action"),
              label: `${t("constraints.pause")} ${visible(name)}…`,
              act: () => onPause(name),
              keepsOpen: true,
            },
          ]
        : []),
    ]),
    ...batches.batches.map((one) => ({
      key: `batch ${one.id}`,
      kind: t("batches.batch"),
      label: visible(titleOf(one)),
      hint: visible(one.id),
      act: () => go("batches", { id: one.id }),
    })),
    ...constraints.constraints
      .filter((one) => fits(one.name, one.reason))
      .slice(0, MOST)
      .map((one) => ({
        key: `constraint ${one.name}`,
        kind: t("palette.constraint"),
        label: visible(one.name),
        act: () => go("constraints", { name: one.name }),
      })),
    ...definitions.definitions.map(({ name }) => ({
      key: `definition ${name}`,
      kind: t("palette.definition"),
      label: visible(name),
      act: () => go("definitions", { name }),
    })),
    ...calendars.calendars
      .filter((one) => fits(one.name, one.country))
      .slice(0, MOST)
      .map(({ name }) => ({
        key: `calendar ${name}`,
        kind: t("calendars.name"),
        label: visible(name),
        act: () => go("calendars", { name }),
      })),
    ...[...new Set(events.events.map((event) => event.event_type))]
      .filter((type) => fits(type))
      .slice(0, MOST)
      .map((type) => ({
        key: `event ${type}`,
        kind: t("events.event"),
        label: visible(type),
        act: () => go("events", { type }),
      })),
    ...workers.workers
      .filter((one) => fits(one.id, one.node_id, one.version))
      .slice(0, MOST)
      .flatMap((one) => [
        {
          key: `worker ${one.id}`,
          kind: t("job.worker"),
          label: visible(one.node_id || one.id),
          hint: visible(one.id),
          act: () => go("workers", { id: one.id }),
        },
        ...(mayOperate && one.state === "fresh"
          ? [
              {
                key: `drain ${one.id}`,
                kind: t("palette.action"),
                label: `${t("workers.drain")} ${visible(one.node_id || one.id)}`,
                hint: visible(one.id),
                act: () => drain(one.id),
              },
            ]
          : []),
      ]),
    ...jobs.jobs.slice(0, MOST).map((job) => ({
      key: `job ${job.id}`,
      kind: t("nav.job"),
      label: visible(job.name),
      hint: `${t(`state.${job.state}`)} · …${visible(job.id).slice(-10)}`,
      act: () => go("job", { id: job.id }),
    })),
  ];
}

/** @param {string} id Of a worker. */
async function drain(id) {
  const path = `api/workers/${encodeURIComponent(id)}`;
  if (await attempt(() => post(`${path}/drain`), ""))
    toast(t("workers.drained"), "ok", () => attempt(() => post(`${path}/resume`), t("workers.resumed")));
}
