/** The move of a namespace to another store. The page checks and measures the move first, shows its progress, and can abort it. */
import { Problem, call, get, post } from "../core/api.js";
import { t } from "../core/i18n.js";
import { html, useEffect, useState } from "../core/lib.js";
import { useResource } from "../core/resource.js";
import { visible } from "../core/text.js";
import { Bar, Button, ErrorBox, Loading } from "../ui/controls.js";
import { Sure, attempt, toast } from "../ui/dialogs.js";
import { Badge, Bytes, Duration, Num, Text, Time } from "../ui/formats.js";
import { Field } from "../ui/forms.js";
import { pathOfNamespace } from "./editor.js";

/** @typedef {import("../../answers").Schemas["NamespaceDetails"]} Namespace */
/** @typedef {import("../../answers").Schemas["MovePlanView"]} Plan */
/** @typedef {import("../../answers").Schemas["MoveView"]} Move */
/** @typedef {import("../core/lib.js").FieldEvent} FieldEvent */

const STORES = { pollMs: 5000 };

/** @param {string} name The name of a namespace. */
export const pathOfMove = (name) => /** @type {const} */ (`${pathOfNamespace(name)}/move`);

/**
 * The dialog to choose the store. For each choice, a dry run checks the move and estimates how long the namespace will
 * stop.
 * @param {{one: Namespace, onClose: () => void, onDone: () => unknown}} props
 */
export function MoveDialog({ one, onClose, onDone }) {
  const stores = useResource((signal) => get("api/stores", {}, signal), [], STORES);
  const others = (stores.data?.stores ?? []).map((store) => store.name).filter((name) => name !== one.store);
  const [chosen, setChosen] = useState("");
  const store = chosen || others[0] || "";
  /** @type {{plan: Plan | null, problem: Problem | null}} */
  const { plan, problem } = usePlan(pathOfMove(one.name), "store", store);
  const begin = async () => {
    await post(pathOfMove(one.name), { store });
    toast(t("namespaces.move.begun", { name: visible(one.name) }));
    await onDone();
  };
  return html`<${Sure}
      title=${t("namespaces.move.title", { name: visible(one.name) })} verb=${t("namespaces.move")}
      isReady=${plan !== null} onConfirm=${begin} onClose=${onClose}>
      <p>${t("namespaces.move.text")}</p>
      <${ErrorBox} problem=${stores.problem} onRetry=${stores.reload} />
      ${
        stores.data && others.length === 0
          ? html`<p>${t("namespaces.move.none")}</p>`
          : html`<${Field} label=${t("namespaces.move.to")}>
              ${(/** @type {Record<string, unknown>} */ attributes) =>
                html`<select
                    ...${attributes} name="store" value=${store}
                    onChange=${(/** @type {FieldEvent} */ event) => setChosen(event.target.value)}>
                    ${others.map((name) => html`<option key=${name} value=${name}>${visible(name)}</option>`)}
                  </select>`}
            <//>`
      }
      <${ErrorBox} problem=${problem} />
      ${store && !plan && !problem && html`<${Loading} />`}
      ${plan && html`<${PlanFacts} plan=${plan} />`}
    <//>`;
}

/**
 * The plan of a move to another store, or to another node of the Cluster.
 * @template {"store" | "node"} Key
 * @typedef {Key extends "store" ? Plan : import("../../answers").Schemas["SlotMovePlanView"]} PlanOf
 */

/**
 * Check and measure a move by a dry run.
 * @template {"store" | "node"} Key
 * @param {`api/namespaces/${string}/move`} path
 * @param {Key} key The member of the body that names the target.
 * @param {string} target "": no dry run is made.
 * @returns {{plan: PlanOf<Key> | null, problem: Problem | null}}
 */
export function usePlan(path, key, target) {
  const [plan, setPlan] = useState(/** @type {unknown} */ (null));
  const [problem, setProblem] = useState(/** @type {Problem | null} */ (null));
  useEffect(() => {
    let isOver = false;
    setPlan(null);
    setProblem(null);
    if (target)
      post(path, { [key]: target, dry_run: true }).then(
        (answer) => {
          if (!isOver) setPlan(answer);
        },
        (error) => {
          if (!isOver) setProblem(error instanceof Problem ? error : new Problem(0, {}));
        },
      );
    return () => {
      isOver = true;
    };
  }, [path, key, target]);
  return { plan: /** @type {PlanOf<Key> | null} */ (plan), problem };
}

/** @param {{plan: Plan}} props */
const PlanFacts = ({ plan }) =>
  html`<div role="status"><dl class="facts">
    <dt>${t("namespaces.move.keys")}</dt><dd><${Num} value=${plan.keys} /></dd>
    <dt>${t("namespaces.memory")}</dt><dd><${Bytes} value=${plan.bytes} /></dd>
    <dt>${t("namespaces.move.stop")}</dt><dd><${Duration} ms=${plan.stop_s * 1000} /></dd></dl></div>
    ${!plan.keeps_leases && html`<p class="fault warn">${t("namespaces.move.reruns")}</p>`}`;

/**
 * The newest move: its progress and its outcome.
 * @param {{one: Namespace, mayAbort: boolean, onDone: () => unknown}} props
 */
export function MoveCard({ one, mayAbort, onDone }) {
  const { move } = one;
  if (!move) return null;
  const abort = async () => {
    if (await attempt(() => call("DELETE", pathOfMove(one.name)), t("namespaces.move.aborting")))
      await onDone();
  };
  const done = doneOf(move);
  const keys = Math.max(done ?? 0, move.keys);
  return html`<section class="card"><h2>${t("namespaces.move.card")}</h2><dl class="facts">
    <dt>${t("namespaces.state")}</dt><dd><${Badge} kind=${KINDS[move.step] ?? "info"}>${t(`namespaces.move.step.${move.step}`)}<//></dd>
    <dt>${t("namespaces.move.from")}</dt><dd><${Text} value=${move.source} max=${40} /></dd>
    <dt>${t("namespaces.move.to")}</dt><dd><${Text} value=${move.target} max=${40} /></dd>
    ${done !== null && html`<dt>${t("namespaces.move.progress")}</dt><dd><${Bar} value=${done} of=${keys} label=${t("namespaces.move.progress")} /></dd>`}
    ${move.reason && html`<dt>${t("namespaces.move.reason")}</dt><dd><${Text} value=${move.reason} max=${500} /></dd>`}
    <dt>${t("namespaces.move.by")}</dt><dd><${Text} value=${move.by} max=${60} /></dd>
    <dt>${t("namespaces.move.began")}</dt><dd><${Time} at=${move.began_at} /></dd>
    ${move.ended_at && html`<dt>${t("namespaces.move.ended")}</dt><dd><${Time} at=${move.ended_at} /></dd>`}</dl>
    ${mayAbort && !move.ended_at && html`<p><${Button} disabled=${move.aborted_by !== ""} onClick=${abort}>${t("namespaces.move.abort")}<//></p>`}</section>`;
}

/** @type {Record<string, import("../ui/formats.js").Kind>} */
export const KINDS = { done: "ok", failed: "bad", aborted: "off", returning: "warn" };

/** @param {Move} move @returns {number | null} The number of keys that the present step has handled. */
function doneOf(move) {
  if (move.step === "copying") return move.copied_keys;
  return move.step === "checking" ? move.compared_keys : null;
}
