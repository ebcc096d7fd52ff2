/** The command palette (Ctrl K): pages, actions, objects of the queue with the typed name, and actions on this page. */
import { titleOf } from "../batches/parts.js";
import { PauseDialog } from "../constraints/pause_dialog.js";
import { Problem, get, may, post } from "../core/api.js";
import { t } from "../core/i18n.js";
import { html, useEffect, useId, useRef, useState } from "../core/lib.js";
import { addressOf, namespace } from "../core/namespaces.js";
import { setPref } from "../core/prefs.js";
import { go, useRoute } from "../core/router.js";
import { visible } from "../core/text.js";
import { useNamespaces } from "../namespaces/known.js";
import { ConfirmCount, Dialog, attempt, toast } from "../ui/dialogs.js";
import { presentActs } from "./palette_acts.js";
import { entry, fitOf, knownIndex, loadIndex, search } from "./palette_index.js";
import { nameToPause, presentPausable, sentence, subjectOf } from "./palette_sentences.js";

/** @typedef {import("../core/lib.js").FieldEvent} FieldEvent */
/** @typedef {import("../core/api.js").Session} Session */
/** @typedef {import("./palette_sentences.js").Command} Command */
/** @typedef {import("./palette_sentences.js").Pausable} Pausable */
/** @typedef {import("./palette_acts.js").Question} Question */
/** @typedef {import("./palette_index.js").Entry} Entry */

const TYPING_MS = 200;
const MOST = 6;
/** How long Enter waits for the master's answer. */
const PATIENCE_MS = 5_000;
const JOB_ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
/** The words for the kinds of objects. */
const KINDS = /** @type {const} */ ({
  name: "job.name",
  batch: "batches.batch",
  constraint: "palette.constraint",
  definition: "palette.definition",
  calendar: "calendars.name",
  worker: "job.worker",
  event: "events.event",
});

/**
 * @param {{entries: {page: import("../core/router.js").PageName}[], session: Session, onHelp: () => void, onClose: () => void}} props
 */
export function Palette({ entries, session, onHelp, onClose }) {
  const id = useId();
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const [pausing, setPausing] = useState(/** @type {Pausable | null} */ (null));
  const [question, setQuestion] = useState(/** @type {Question | null} */ (null));
  const [isWaiting, setWaiting] = useState(false);
  const hasMoved = useRef(false);
  const wanted = text.trim();
  const { commands, isComplete } = useCommands(wanted, entries, session, setPausing, setQuestion, onHelp);
  useEffect(() => setAt(0), [wanted]);
  const chosen = Math.min(at, commands.length - 1);
  const isSure = hasMoved.current || isComplete;
  const run = (/** @type {Command | undefined} */ command) => {
    setWaiting(false);
    if (!command) return;
    if (!command.keepsOpen) onClose();
    void command.act();
  };
  useEffect(() => {
    if (isWaiting && isSure) run(commands[chosen]);
  }, [isWaiting, isSure]);
  useEffect(() => {
    if (!isWaiting) return undefined;
    const timer = setTimeout(() => run(commands[chosen]), PATIENCE_MS);
    return () => clearTimeout(timer);
  }, [isWaiting]);
  if (pausing !== null)
    return html`<${PauseDialog} target=${pausing.target} what=${pausing.what} onClose=${onClose} />`;
  if (question !== null) {
    const { act, text: consequence, ...asked } = question;
    return html`<${ConfirmCount} ...${asked} onConfirm=${act} onClose=${onClose}><p>${consequence}</p><//>`;
  }
  const point = (/** @type {number} */ place) => {
    hasMoved.current = true;
    setAt(place);
  };
  const press = (/** @type {KeyboardEvent} */ event) => {
    if (event.isComposing) return;
    const step = /** @type {Record<string, number>} */ ({ ArrowDown: 1, ArrowUp: -1 })[event.key];
    if (step) point((chosen + step + commands.length) % commands.length);
    else if (event.key === "Enter") {
      if (isSure) run(commands[chosen]);
      else setWaiting(true);
    } else return;
    event.preventDefault();
  };
  const type = (/** @type {FieldEvent} */ event) => {
    hasMoved.current = false;
    setWaiting(false);
    setText(event.target.value);
  };
  const title = namespace ? `${t("palette")} · ${visible(namespace)}` : t("palette");
  return html`<${Dialog} title=${title} onClose=${onClose}>
      <div class="palette" aria-busy=${String(isWaiting)}>
        <input
          type="search" name="command" autofocus role="combobox" aria-expanded="true"
          aria-controls=${`${id}-list`} aria-activedescendant=${`${id}-${chosen}`}
          aria-label=${t("palette.hint")} placeholder=${t("palette.hint")} maxlength="200" autocomplete="off"
          autocapitalize="none" spellcheck=${false} value=${text} onInput=${type} onKeyDown=${press} />
        <p class="muted small" role="status">${isWaiting ? t("palette.waiting") : t("palette.example")}</p>
        <${CommandList} id=${id} commands=${commands} chosen=${chosen} onRun=${run} onPoint=${point} />
      </div>
    <//>`;
}

/**
 * @param {{id: string, commands: Command[], chosen: number, onRun: (command: Command) => void, onPoint: (place: number) => void}} props
 */
function CommandList({ id, commands, chosen, onRun, onPoint }) {
  const list = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    list.current?.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
  }, [chosen]);
  return html`<ul ref=${list} id=${`${id}-list`} role="listbox" aria-label=${t("palette")}>
      ${commands.map(
        (command, place) => html`<li
            key=${command.key} id=${`${id}-${place}`} role="option" aria-selected=${String(place === chosen)}
            onClick=${() => onRun(command)} onPointerMove=${() => onPoint(place)}>
            <span class="palette-kind">${command.kind}</span><span>${command.label}</span>
            ${command.hint && html`<span class="muted small">${command.hint}</span>`}
          </li>`,
      )}
    </ul>`;
}

/**
 * Return the list of the palette for a text.
 * @param {string} wanted
 * @param {{page: import("../core/router.js").PageName}[]} entries
 * @param {Session} session
 * @param {(pausable: Pausable) => void} onPause
 * @param {(question: Question) => void} onAsk
 * @param {() => void} onHelp
 * @returns {{commands: Command[], isComplete: boolean}}
 *   `isComplete`: whether the list is complete enough for Enter. Otherwise, Enter waits for the answer, which may contain the name.
 */
function useCommands(wanted, entries, session, onPause, onAsk, onHelp) {
  const route = useRoute();
  const index = useIndex(session.who ?? "");
  const here = usePresent(route, session, onPause, onAsk);
  const subject = may(session, "operate") ? subjectOf(wanted) : "";
  const { found, of } = useFound(wanted, subject);
  const namespaces = useNamespaces();
  const isAnswered = of === wanted;
  const lower = wanted.toLowerCase();
  const things = wanted ? thingsOf(wanted, index?.entries ?? [], isAnswered ? found.entries : []) : [];
  const isNamed = things.length > 0 && fitOf(/** @type {Entry} */ (things[0]), lower) === 0;
  const spoken = sentence(wanted, {
    entries: [...(index?.entries ?? []), ...found.entries],
    present: presentPausable(route) ?? here.pausable,
    session,
    onPause,
  });
  /** @type {Command[]} */
  const fixed = [
    ...here.commands,
    ...entries.map(({ page }) => ({
      key: `page ${page}`,
      kind: t("palette.page"),
      label: t(`nav.${page}`),
      act: () => go(page),
    })),
    ...(may(session, "push") ? [sending()] : []),
    ...settings(onHelp),
    ...(wanted ? namespaces.map(entering) : []),
  ].filter((command) => command.label.toLowerCase().includes(lower));
  const told = things.flatMap((one) => commandsOf(one, session, onPause));
  // List things with exactly this name before the pages and commands that contain it.
  const named = isNamed ? [...told, ...fixed] : [...fixed, ...told];
  const isKnown = isNamed || spoken.length > 0 || JOB_ID.test(wanted);
  return {
    commands: wanted ? [...spoken, ...named, ...(isAnswered ? found.jobs : []), searchJobs(wanted)] : fixed,
    isComplete: !wanted || isKnown || (index !== null && ((index.isWhole && !subject) || isAnswered)),
  };
}

/**
 * @param {string} wanted
 * @param {Entry[]} indexed
 * @param {Entry[]} found The objects that the master found.
 * @returns {Entry[]} The objects with this name or a similar one, the most similar first.
 */
function thingsOf(wanted, indexed, found) {
  const lower = wanted.toLowerCase();
  const local = search(indexed, wanted, MOST);
  const known = new Set(local.map((one) => `${one.kind} ${one.id}`));
  const remote = found.filter((one) => !known.has(`${one.kind} ${one.id}`) && fitOf(one, lower) < Infinity);
  return [...local, ...remote].sort((a, b) => fitOf(a, lower) - fitOf(b, lower));
}

/** @param {string} who @returns {import("./palette_index.js").Index | null} */
function useIndex(who) {
  const [index, setIndex] = useState(() => knownIndex(who));
  useEffect(() => {
    const aborter = new AbortController();
    loadIndex(who, aborter.signal).then(setIndex, () => {});
    return () => aborter.abort();
  }, [who]);
  return index;
}

/**
 * @param {import("../core/router.js").Route} route
 * @param {Session} session
 * @param {(pausable: Pausable) => void} onPause
 * @param {(question: Question) => void} onAsk
 */
function usePresent(route, session, onPause, onAsk) {
  const [commands, setCommands] = useState(/** @type {Command[]} */ ([]));
  const [pausable, setPausable] = useState(/** @type {Pausable | null} */ (null));
  useEffect(() => {
    const aborter = new AbortController();
    const asked = { session, onPause, onAsk, onKnown: setPausable, signal: aborter.signal };
    presentActs(route, asked).then(setCommands, () => {});
    return () => aborter.abort();
  }, [route.page, route.query["id"], route.query["name"]]);
  return { commands, pausable };
}

/**
 * @param {string} wanted
 * @param {string} subject The object that a sentence names. It may be newer than the index.
 * @returns {{found: {entries: Entry[], jobs: Command[]}, of: string}} `found`: the answers of the master. `of`: the
 *   text that they belong to.
 */
function useFound(wanted, subject) {
  const [state, setState] = useState({
    found: { entries: /** @type {Entry[]} */ ([]), jobs: /** @type {Command[]} */ ([]) },
    of: "",
  });
  useEffect(() => {
    if (!wanted) return undefined;
    const aborter = new AbortController();
    const timer = setTimeout(() => {
      ask(wanted, subject, aborter.signal).then(
        (found) => setState({ found, of: wanted }),
        () => {},
      );
    }, TYPING_MS);
    return () => {
      clearTimeout(timer);
      aborter.abort();
    };
  }, [wanted, subject]);
  return state;
}

/** @returns {Command} */
const sending = () => ({
  key: "send",
  kind: t("palette.action"),
  label: t("events.send"),
  act: () => go("events", { send: "*" }),
});

/** @param {import("../namespaces/known.js").Namespace} one @returns {Command} */
const entering = ({ name, title }) => ({
  key: `namespace ${name}`,
  kind: t("namespaces.one"),
  label: visible(name),
  hint: visible(title),
  act: () => location.assign(addressOf(name, "#/overview")),
});

/** @param {string} text @returns {Command} */
const searchJobs = (text) => ({
  key: "search",
  kind: t("nav.jobs"),
  label: t("palette.search", { text: visible(text) }),
  act: () => (JOB_ID.test(text) ? go("job", { id: text.toLowerCase() }) : go("jobs", { q: text })),
});

/** @param {() => void} onHelp @returns {Command[]} Commands that change settings of this browser only. */
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
 * @param {string} subject
 * @param {AbortSignal} signal
 * @returns {Promise<{entries: Entry[], jobs: Command[]}>} Objects that the index may lack: jobs, and further names and
 *   batches.
 */
async function ask(text, subject, signal) {
  const [named, names, batches, definitions, jobs] = await Promise.all([
    subject ? isName(subject, signal) : false,
    get("api/names", { q: text, limit: MOST }, signal),
    get("api/batches", { q: text, limit: MOST }, signal),
    get("api/definitions", { q: text, limit: MOST }, signal),
    get("api/jobs", { q: text, limit: MOST }, signal),
  ]);
  return {
    entries: [
      ...(named ? [entry("name", subject)] : []),
      ...names.names.map(({ name }) => entry("name", name)),
      ...batches.batches.map((one) => entry("batch", one.id, { label: titleOf(one), hint: one.id })),
      ...definitions.definitions.map(({ name }) => entry("definition", name)),
    ],
    jobs: jobs.jobs.slice(0, MOST).map((job) => ({
      key: `job ${job.id}`,
      kind: t("nav.job"),
      label: visible(job.name),
      hint: `${t(`state.${job.state}`)} · …${visible(job.id).slice(-10)}`,
      act: () => go("job", { id: job.id }),
    })),
  };
}

/** @param {string} name @param {AbortSignal} signal */
const isName = (name, signal) =>
  get(/** @type {const} */ (`api/names/${encodeURIComponent(name)}`), {}, signal).then(
    () => true,
    (error) => {
      if (error instanceof Problem && error.status === 404) return false;
      throw error;
    },
  );

/**
 * @param {Entry} one
 * @param {Session} session
 * @param {(pausable: Pausable) => void} onPause
 * @returns {Command[]} The commands for the object. The first one opens it.
 */
function commandsOf(one, session, onPause) {
  /** @type {Record<Entry["kind"], () => void>} */
  const opens = {
    name: () => go("names", { name: one.id }),
    batch: () => go("batches", { id: one.id }),
    constraint: () => go("constraints", { name: one.id }),
    definition: () => go("definitions", { name: one.id }),
    calendar: () => go("calendars", { name: one.id }),
    worker: () => go("workers", { id: one.id }),
    event: () => go("events", { type: one.id }),
  };
  /** @type {Command[]} */
  const commands = [
    {
      key: `${one.kind} ${one.id}`,
      kind: t(KINDS[one.kind]),
      label: one.label,
      ...(one.hint && { hint: one.hint }),
      act: opens[one.kind],
    },
  ];
  if (!may(session, "operate")) return commands;
  if (one.kind === "name")
    commands.push({
      key: `pause ${one.id}`,
      kind: t("palette.action"),
      label: `${t("constraints.pause")} ${one.label}…`,
      act: () => onPause(nameToPause(one.id)),
      keepsOpen: true,
    });
  if (one.isFresh)
    commands.push({
      key: `drain ${one.id}`,
      kind: t("palette.action"),
      label: `${t("workers.drain")} ${one.label}`,
      ...(one.hint && { hint: one.hint }),
      act: () => drain(one.id),
    });
  return commands;
}

/** @param {string} id The ID of a worker. */
async function drain(id) {
  const path = /** @type {const} */ (`api/workers/${encodeURIComponent(id)}`);
  if (await attempt(() => post(`${path}/drain`), ""))
    toast(t("workers.drained"), "ok", () => attempt(() => post(`${path}/resume`), t("workers.resumed")));
}
