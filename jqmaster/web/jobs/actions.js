/** Actions on many jobs at once (POST /api/jobs/actions). The page counts the jobs, asks for confirmation, and then shows the progress. */
import { html, useEffect, useRef, useState } from "../core/lib.js";
import { Problem, get, post, toJson } from "../core/api.js";
import { number, t, tOr } from "../core/i18n.js";
import { listen, liveStatus } from "../core/live.js";
import { visible } from "../core/text.js";
import { Bar, Button, ErrorBox } from "../ui/controls.js";
import { ConfirmCount, Dialog, attempt, toast } from "../ui/dialogs.js";
import { Badge, Text } from "../ui/formats.js";
import { FormField, useForm } from "../ui/forms.js";
import { ActionKinds } from "./action_kinds.js";

/** @typedef {import("../../answers").Schemas["JobActionPreview"]} JobActionPreview */

/** @typedef {import("../../answers").Schemas["JobActionView"]} JobAction */

/** @typedef {import("../core/states.js").Action} ActionName */
/** @typedef {{ids: string[]} | {filter: Record<string, unknown>}} Target */

/** @type {ActionName[]} */
export const ACTIONS = ["cancel", "retry", "run", "set_priority", "delete"];
const DANGEROUS = ["cancel", "delete"];
const TYPING_MS = 300;
const WATCHED_MS = 60_000;
const POLL_MS = 2000;

/**
 * The dialog that counts the jobs that `action` would concern, asks for confirmation, and begins the action.
 * @param {{action: ActionName, target: Target, isRecounted?: boolean, onClose: () => void, onBegun: () => void}} props
 *   `isRecounted`: count the jobs again before the action begins, and ask again if the count differs. The action then
 *   changes at most as many jobs as were counted.
 */
export function ActionDialog({ action, target, isRecounted = false, onClose, onBegun }) {
  const form = useForm(null, () => ({ priority: "0", rate: "", share: "" }));
  const { priority = "", rate, share } = form.values;
  const title = t(`action.${action}.title`);
  const wanted = { action, ...target, ...(action === "set_priority" && { priority: Number(priority) }) };
  const isPriority = action !== "set_priority" || /^-?\d+$/.test(priority.trim());
  // The count depends on the priority: jobs that already have it are left out.
  const counted = JSON.stringify([action, target, action === "set_priority" ? priority.trim() : null]);
  const { dry, problem, ask, show } = useDryRun(wanted, counted, isPriority);
  if (!dry) {
    return html`<${Dialog} title=${title} onClose=${onClose}>
        <${ErrorBox} problem=${problem} />${!problem && html`<p role="status">${t("action.counting")}</p>`}
        <footer><${Button} onClick=${onClose}>${t("cancel")}<//></footer>
      <//>`;
  }
  const begin = async () => {
    const again = isRecounted ? await ask() : dry;
    if (again.count !== dry.count) {
      show(again);
      const detail = t("action.recounted", { before: dry.count, count: again.count });
      throw new Problem(409, { title: t("action.recounted.title"), detail });
    }
    await post("api/jobs/actions", {
      ...wanted,
      ...(rate && { rate_per_s: Number(rate) }),
      ...(action === "retry" && share && { stop_at_failure_share: Number(share) / 100 }),
      ...(isRecounted && again.is_exact && { at_most: again.count }),
    });
    for (const tell of begun) tell();
    toast(t("action.begun", { action: t(`action.${action}`), count: dry.count }));
    onBegun();
  };
  return html`<${ConfirmCount}
      title=${title} count=${dry.count} isAtLeast=${!dry.is_exact} verb=${t(`action.${action}`)}
      kind=${DANGEROUS.includes(action) ? "danger" : "primary"} isReady=${dry.of === counted}
      onClose=${onClose} onConfirm=${begin}>
      <p>${t(`action.${action}.text`)}</p>
      ${
        "filter" in target &&
        html`<p class="muted">
            ${t("action.all_that_match")} ${Object.entries(target.filter).map(
              ([key, value]) =>
                html`<span class="chip">${t(`filter.${key}`)}: <${Text} value=${typeof value === "object" ? toJson(value) : value} max=${80} /></span> `,
            )}
          </p>`
      }
      <${ActionKinds} action=${action} filter=${"filter" in target ? target.filter : null} dry=${dry} />
      <${ActionFields} action=${action} count=${dry.count} form=${form} problem=${problem} />
    <//>`;
}

/**
 * Count the jobs that an action would change.
 * @param {Record<string, unknown>} wanted The action, as the API has it.
 * @param {string} counted A text that identifies the count. When it changes, the jobs are counted again.
 * @param {boolean} isComplete Whether the action can be counted.
 */
function useDryRun(wanted, counted, isComplete) {
  const [dry, setDry] = useState(/** @type {JobActionPreview & {of: string} | null} */ (null));
  const [problem, setProblem] = useState(/** @type {Problem | null} */ (null));
  // With dry_run, the API answers with a preview.
  const ask = () =>
    /** @type {Promise<JobActionPreview>} */ (post("api/jobs/actions", { ...wanted, dry_run: true }));
  const show = (/** @type {JobActionPreview} */ answer) => setDry({ ...answer, of: counted });
  useEffect(() => {
    if (!isComplete) return undefined;
    let isOver = false;
    const count = () =>
      ask().then(
        (answer) => {
          if (isOver) return;
          show(answer);
          setProblem(null);
        },
        (error) => {
          if (!isOver) setProblem(error instanceof Problem ? error : new Problem(0, {}));
        },
      );
    const timer = setTimeout(count, dry ? TYPING_MS : 0);
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, [counted]);
  return { dry, problem, ask, show };
}

/** @param {{action: ActionName, count: number, form: import("../ui/forms.js").FormInputs, problem: Problem | null}} props */
function ActionFields({ action, count, form, problem }) {
  return html`<div class="form-grid">
      ${
        action === "set_priority" &&
        html`<${FormField}
            form=${form} name="priority" problem=${problem} label=${t("job.priority")}
            hint=${t("job.priority.hint")} type="number" step="1" />`
      }
      ${
        count > 100 &&
        html`<${FormField}
            form=${form} name="rate" path="rate_per_s" label=${t("action.rate")} hint=${t("action.rate.hint")}
            type="number" min="0.1" step="any" />`
      }
      ${
        action === "retry" &&
        count > 1 &&
        html`<${FormField}
            form=${form} name="share" path="stop_at_failure_share" label=${t("action.stop_share")}
            hint=${t("action.stop_share.hint")} type="number" min="1" max="100" step="1" />`
      }
    </div>`;
}

/** @type {Set<() => void>} */
const begun = new Set();

/** @param {() => void} onEnd Called when an action on many jobs has ended, so that a list shows its effect at once. */
export function useActionEnds(onEnd) {
  const latest = useRef(onEnd);
  latest.current = onEnd;
  useEffect(
    () =>
      listen("action", (action) => {
        if (action.state !== "running") latest.current();
      }),
    [],
  );
}

/**
 * The progress of the running actions and of actions that have just ended. It is shown on every page.
 * @param {{mayOperate: boolean}} props
 */
export function ActionsUnderWay({ mayOperate }) {
  const all = useActions();
  const [hidden, setHidden] = useState(/** @type {Set<string>} */ (new Set()));
  const shown = all
    .filter(
      (action) =>
        !hidden.has(action.id) &&
        (action.state === "running" || Date.now() - Date.parse(action.finished_at ?? "") < WATCHED_MS),
    )
    .sort((a, b) => b.created_at.localeCompare(a.created_at));
  return html`<div class="under-way" role="status" aria-live="polite">
      ${shown.map(
        (action) =>
          html`<${ActionUnderWay}
              key=${action.id} action=${action} mayOperate=${mayOperate}
              onHide=${() => setHidden(new Set([...hidden, action.id]))} />`,
      )}
    </div>`;
}

/** @returns {JobAction[]} The actions that are running, or were running since the page was opened. */
function useActions() {
  const [all, setAll] = useState(/** @type {Record<string, JobAction>} */ ({}));
  const take = (/** @type {JobAction[]} */ actions) =>
    setAll((old) => {
      // Ignore an answer that says "running" if an event has already reported the end.
      const isOlder = (/** @type {JobAction} */ action) =>
        action.state === "running" && (old[action.id] ?? action).state !== "running";
      const newer = actions.filter((action) => !isOlder(action));
      return { ...old, ...Object.fromEntries(newer.map((action) => [action.id, action])) };
    });
  useEffect(() => {
    // Load the running actions: the stream of events reports later changes only.
    const fetchAll = () =>
      get("api/jobs/actions").then(
        (answer) => take(answer.actions ?? []),
        () => {},
      );
    begun.add(fetchAll);
    const ends = [
      listen("action", (action) => take([action])),
      listen("resumed", fetchAll),
      () => begun.delete(fetchAll),
    ];
    const poll = setInterval(() => {
      if (!document.hidden && liveStatus() !== "live") void fetchAll();
    }, POLL_MS);
    return () => {
      clearInterval(poll);
      for (const end of ends) end();
    };
  }, []);
  return Object.values(all);
}

/** @param {{action: JobAction, mayOperate: boolean, onHide: () => void}} props */
function ActionUnderWay({ action, mayOperate, onHide }) {
  const isRunning = action.state === "running";
  const most = action.matched ?? action.ids_count ?? action.looked_at;
  return html`<div class="card action">
      <${Badge} kind=${isRunning ? "info" : action.state === "done" ? "ok" : "warn"}>
        ${tOr(`action.state.${action.state}`, visible(action.state))}
      <//>
      <strong>${tOr(`action.${action.action}`, visible(action.action))}</strong>
      <span>
        ${t("action.progress", { done: action.done })}${most > 0 && ` / ${number(most)}`}
        ${action.refused > 0 && html` · ${t("action.refused", { count: action.refused })}`}
        ${
          action.failed_again !== null &&
          action.failed_again > 0 &&
          html` · ${t("action.failed_again", { count: action.failed_again })}`
        }
      </span>
      ${
        isRunning &&
        most > 0 &&
        html`<${Bar} value=${action.done + action.refused} of=${most} label=${t("action.bar")} />`
      }
      ${action.message && html`<span class="muted"><${Text} value=${action.message} /></span>`}
      ${
        isRunning && mayOperate
          ? html`<${Button}
              class="small"
              onClick=${() => attempt(() => post(`api/jobs/actions/${action.id}/cancel`), t("action.stopped"))}>
              ${t("action.stop")}
            <//>`
          : !isRunning &&
            html`<button type="button" class="icon-button" aria-label=${t("close")} onClick=${onHide}>✕</button>`
      }
    </div>`;
}
