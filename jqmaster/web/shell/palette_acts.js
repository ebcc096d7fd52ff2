/** The actions of the palette on the object of the page. */
import { get, may, post } from "../core/api.js";
import { t } from "../core/i18n.js";
import { admits } from "../core/states.js";
import { visible } from "../core/text.js";
import { askAbout } from "../definitions/dialogs.js";
import { attempt, toast } from "../ui/dialogs.js";
import { asking, nameToPause, presentPausable } from "./palette_sentences.js";

/** @typedef {import("./palette_sentences.js").Command} Command */
/** @typedef {import("./palette_sentences.js").Pausable} Pausable */
/**
 * A question before something that cannot be undone, or that concerns many jobs.
 * @typedef {{title: string, count: number, counted?: string, verb: string, kind: string, text: string, act: () => Promise<void>}} Question
 */

/**
 * @typedef {{session: import("../core/api.js").Session, onPause: (pausable: Pausable) => void, onAsk: (question: Question) => void,
 *   onKnown: (pausable: Pausable) => void, signal: AbortSignal}} Asked
 *   `onKnown`: called with the object that a pause on this page concerns, as soon as it is known.
 */

/** @type {Record<string, (id: string, asked: Asked) => Command[] | Promise<Command[]>>} By page: the function that returns the actions on its object. */
const ACTS = { job: jobActs, batches: batchActs, workers: workerActs, definitions: definitionActs };

/**
 * @param {import("../core/router.js").Route} route
 * @param {Asked} asked
 * @returns {Promise<Command[]>} The actions on the object of the page.
 */
export async function presentActs(route, asked) {
  const { page, query } = route;
  const id = query["id"] ?? query["name"] ?? "";
  if (!id || !may(asked.session, "push")) return [];
  if (page !== "job" && !may(asked.session, "operate")) return [];
  const acts = ACTS[page ?? ""];
  if (acts) return acts(id, asked);
  const pausable = presentPausable(route);
  return pausable ? [pausing(pausable, asked)] : [];
}

/**
 * @param {string} id
 * @param {Asked} asked
 */
async function jobActs(id, asked) {
  const path = /** @type {const} */ (`api/jobs/${encodeURIComponent(id)}`);
  const job = await get(path, {}, asked.signal);
  const mayOperate = may(asked.session, "operate");
  asked.onKnown(nameToPause(job.name));
  return [
    ...(mayOperate && admits(job.state, "retry")
      ? [command(id, "retry", `${path}/retry`, { attempt: job.attempt })]
      : []),
    ...(mayOperate && admits(job.state, "run") ? [command(id, "run", `${path}/run`)] : []),
    ...(admits(job.state, "cancel")
      ? [
          careful(id, "cancel", `${path}/cancel`, asked, {
            title: t("job.cancel.title"),
            count: 1,
            verb: t("job.cancel"),
            kind: "danger",
            text: t(job.state === "running" ? "job.cancel.running" : "job.cancel.text"),
          }),
        ]
      : []),
    ...(mayOperate ? [pausing(nameToPause(job.name), asked)] : []),
  ];
}

/**
 * @param {string} id
 * @param {Asked} asked
 */
async function batchActs(id, asked) {
  const path = /** @type {const} */ (`api/batches/${encodeURIComponent(id)}`);
  const { failed } = (await get(path, {}, asked.signal)).counts;
  if (failed === 0) return [];
  return [
    careful(id, "retry_failed", `${path}/retry`, asked, {
      title: t("batches.retry.title"),
      count: failed,
      counted: t("batches.retry.count", { count: failed }),
      verb: t("batches.retry"),
      kind: "primary",
      text: t("batches.retry.text"),
    }),
  ];
}

/**
 * @param {string} id
 * @param {Asked} asked
 */
async function workerActs(id, { signal }) {
  const path = /** @type {const} */ (`api/workers/${encodeURIComponent(id)}`);
  const worker = await get(path, {}, signal);
  const act = worker.state === "draining" ? "resume" : "drain";
  return worker.state === "detached" ? [] : [command(id, act, `${path}/${act}`)];
}

/**
 * @param {string} id
 * @param {Asked} asked
 */
async function definitionActs(id, { signal }) {
  const path = /** @type {const} */ (`api/definitions/${encodeURIComponent(id)}`);
  const definition = await get(path, {}, signal);
  /** An action that opens a dialog of the page. */
  const open = (/** @type {"run" | "pause"} */ what) => ({
    key: `present ${what}`,
    kind: t("palette.here"),
    label: `${t(`palette.here.${what === "run" ? "start" : what}`)}…`,
    hint: visible(id),
    act: () => askAbout({ what, name: id, onDone: () => {} }),
  });
  return [
    ...(definition.kind === "time" ? [open("run")] : []),
    definition.enabled ? open("pause") : command(id, "resume", `${path}/resume`),
  ];
}

/** @param {string} id @param {string} act @param {string} path @param {unknown} [body] */
const command = (id, act, path, body) => ({
  key: `present ${act}`,
  kind: t("palette.here"),
  label: t(`palette.here.${act}`),
  hint: visible(id),
  act: () => attempt(() => post(path, body), t("palette.done", { name: visible(id) })),
});

/**
 * An action that asks for confirmation.
 * @param {string} id
 * @param {string} act
 * @param {string} path
 * @param {Asked} asked
 * @param {Omit<Question, "act">} question
 */
const careful = (id, act, path, { onAsk }, question) => ({
  key: `present ${act}`,
  kind: t("palette.here"),
  label: `${t(`palette.here.${act}`)}…`,
  hint: visible(id),
  act: () =>
    onAsk({
      ...question,
      act: async () => {
        await post(path);
        toast(t("palette.done", { name: visible(id) }));
      },
    }),
  keepsOpen: true,
});

/** @param {Pausable} what @param {Asked} asked */
const pausing = (what, { onPause }) => ({ ...asking(what, onPause), kind: t("palette.here") });
