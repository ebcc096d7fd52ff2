/**
 * Limits on sets of jobs: their usage, the holders of their slots, and the jobs that wait. People create, change,
 * pause and try them here.
 */
import { html, useState } from "../../core/lib.js";
import { Problem, call, del, get, may, toJson } from "../../core/api.js";
import { Changes } from "../../identity/changes.js";
import { ConstraintEditor } from "../editor.js";
import { Shares } from "../shares.js";
import { KeyValues, unitsText } from "../values.js";
import { curl } from "../../core/curl.js";
import { number, t } from "../../core/i18n.js";
import { LIMIT_KINDS } from "../limit_kinds.js";
import { limitTexts, limitsOf } from "../limits.js";
import { useResource } from "../../core/resource.js";
import { PauseButton, endPause, pauseColumn } from "../pause_dialog.js";
import { Pauses, concerns, isPause } from "../pauses.js";
import { RuleText } from "../../matching/rule_builder.js";
import { href } from "../../core/router.js";
import { visible } from "../../core/text.js";
import { Absent } from "../../ui/absent.js";
import { Bar, Button, Copy, Empty, ErrorBox, Loading } from "../../ui/controls.js";
import { Dialog, attempt } from "../../ui/dialogs.js";
import { Badge, Id, Num, Text, Time, nowMs, useTick } from "../../ui/formats.js";
import { Icon } from "../../ui/icons.js";
import { Table, useHold, useSteadyRows } from "../../ui/tables.js";
import { useTitle } from "../../ui/titles.js";
import { whoText } from "../../identity/value_words.js";

/** @typedef {import("../../../answers").Schemas["ConstraintView"]} Constraint */
/** @typedef {import("../../../answers").Schemas["ConstraintDetail"]} Detail */
/** @typedef {import("../../../answers").Schemas["ListedConstraint"]} ListedConstraint */

/** @typedef {import("../../../answers").Schemas["HolderView"]} Holder */

const EXAMPLE = {
  matcher: { field: "name", op: "eq", value: "mail.send" },
  key: "argument.host",
  concurrency: 2,
};

/** @param {{query: Record<string, string>, go: typeof import("../../core/router.js").go, session: import("../../core/api.js").Session}} props */
export function Page({ query, go, session }) {
  return query["name"]
    ? html`<${One} key=${query["name"]} name=${query["name"]} go=${go} session=${session} />`
    : html`<${List} go=${go} session=${session} />`;
}

/** @param {Constraint} constraint */
const limitsText = (constraint) => limitTexts(constraint).join(" · ") || t("constraints.no_limit");

/** @param {{constraint: ListedConstraint}} props */
function Marks({ constraint }) {
  return html`${!constraint.enabled && html`<${Badge} kind="off">${t("constraints.off")}<//> `}
    ${constraint.paused && html`<${Badge} kind="warn">${t("enqueue.paused")}<//> `}
    ${constraint.mode === "shadow" && html`<${Badge}>${t("enqueue.shadow")}<//> `}
    ${!constraint.usage.in_force && html`<${Badge} kind="warn">${t("constraints.not_in_force")}<//>`}`;
}

/**
 * How many slots are in use; without a concurrency limit, how many jobs have started. With a key: how many of its values
 * are full.
 *
 * @param {{constraint: ListedConstraint}} props
 */
function Usage({ constraint }) {
  const { usage } = constraint;
  const [closed, all] = [usage.closed_keys ?? 0, usage.keys ?? 0];
  if (constraint.key && closed > 0)
    return html`<span class="usage">
        <${Badge} kind="warn">${t("constraints.full_values", { count: closed, all })}<//> <${Bar}
          value=${closed} of=${all} label=${t("constraints.usage")} kind="warn" />
      </span>`;
  const [running, started] = constraint.weight
    ? [usage.running_units, usage.units_in_window]
    : [usage.running, usage.starts_in_window];
  const used = constraint.concurrency !== null ? running : started;
  const most = constraint.concurrency ?? constraint.rate?.limit ?? null;
  if (used === null || used === undefined) return html`<${Num} value=${null} />`;
  if (constraint.key || most === null) return html`<span class="num">${number(used)}</span>`;
  return html`<span class="usage">
      <span class="num">${number(used)} / ${number(most)}</span> <${Bar}
        value=${used} of=${most} label=${t("constraints.usage")} kind=${used >= most ? "warn" : "info"} />
    </span>`;
}

/**
 * The number of jobs that wait because of this constraint. Other jobs that it matches wait for something else.
 * @param {{usage: ListedConstraint["usage"]}} props
 */
function Held({ usage }) {
  if (usage.held === null) return html`<${Num} value=${null} />`;
  const title = t("constraints.held_jobs.title", { held: usage.held, waiting: usage.waiting ?? 0 });
  return html`<span title=${title} class=${usage.held > 0 ? "" : "muted"}><${Num} value=${usage.held} /></span>`;
}

/** @param {{at: string | null}} props When the first closed gate opens. After that time, the gate stays closed until the master opens it. */
function Opening({ at }) {
  useTick();
  if (at && Date.parse(at) < nowMs()) return html`<span class="muted">${t("constraints.opening")}</span>`;
  return html`<${Time} at=${at} isNext />`;
}

/** @param {{go: typeof import("../../core/router.js").go, session: import("../../core/api.js").Session}} props */
function List({ go, session }) {
  const hold = useHold();
  const [isMaking, setMaking] = useState(false);
  const found = useResource((signal) => get("api/constraints", {}, signal), [], {
    events: ["constraints", "jobs"],
    leastMs: 2000,
    everyMs: 5000,
  });
  const all = found.data?.constraints ?? [];
  const { rows } = useSteadyRows(
    all.filter((one) => !isPause(one.name)),
    nameOf,
    hold.isHeld,
    "all",
  );
  const mayOperate = may(session, "operate");
  return html`<div class="page-head">
      <h1>${t("nav.constraints")}</h1>
      ${
        mayOperate &&
        html`<${Button} opensDialog class="small" kind="primary" onClick=${() => setMaking(true)}>${t("constraints.make")}<//>`
      }
    </div>
    <${ErrorBox} problem=${found.problem} onRetry=${found.reload} />
    ${
      !found.data
        ? html`<${Loading} isLoading=${!found.problem} />`
        : html`<${Pauses} mayOperate=${mayOperate} />
          <div ...${hold.bind}>
            <${Table}
              caption=${t("nav.constraints")} rows=${rows} rowKey=${nameOf}
              onOpen=${(/** @type {ListedConstraint} */ one) => go("constraints", { name: one.name })}
              columns=${[
                ...columnsOf(rows),
                ...(mayOperate
                  ? [pauseColumn((one) => html`<${RowPause} one=${one} all=${all} onDone=${found.reload} />`)]
                  : []),
              ]} empty=${html`<div class="card">
                  <${Empty}
                    title=${t("constraints.empty")}
                    curl=${curl(session, "PUT", "api/constraints/mail-per-host", { body: EXAMPLE })} />
                </div>`} />
          </div>`
    }
    ${
      isMaking &&
      html`<${ConstraintEditor} constraint=${null} onClose=${() => setMaking(false)} onDone=${(/** @type {string} */ name) => go("constraints", { name })} />`
    }`;
}

/** @typedef {import("../../ui/tables.js").Column<ListedConstraint>} Column */

/** @param {ListedConstraint[]} rows @returns {Column[]} */
function columnsOf(rows) {
  /** @type {Column} */
  const shadow = {
    key: "shadow",
    label: t("constraints.would"),
    align: "end",
    priority: 3,
    render: (one) => html`<${Num} value=${one.mode === "shadow" ? one.usage.shadow_delayed : null} />`,
  };
  return [
    {
      key: "name",
      label: t("job.name"),
      render: (one) =>
        html`<a href=${href("constraints", { name: one.name })}>${visible(one.name)}</a> <${Marks} constraint=${one} />`,
    },
    { key: "limits", label: t("constraints.limits"), render: limitsText },
    {
      key: "key",
      label: t("constraints.key"),
      priority: 2,
      render: (one) =>
        one.key
          ? html`<code>${visible(one.key)}</code>
            ${
              one.usage.keys !== null &&
              html` <span class="muted num">${t("constraints.values", { count: one.usage.keys })}</span>`
            }`
          : html`<${Num} value=${null} />`,
    },
    {
      key: "usage",
      label: t("constraints.usage"),
      priority: 2,
      render: (one) => html`<${Usage} constraint=${one} />`,
    },
    {
      key: "held",
      label: t("constraints.held_jobs"),
      align: "end",
      render: (one) => html`<${Held} usage=${one.usage} />`,
    },
    {
      key: "opens",
      label: t("constraints.opens"),
      align: "end",
      priority: 3,
      render: (one) => html`<${Opening} at=${one.usage.next_opening} />`,
    },
    ...(rows.some((one) => one.mode === "shadow") ? [shadow] : []),
  ];
}

/** @param {{name: string}} one */
const nameOf = (one) => one.name;

/**
 * @param {Constraint} one
 * @param {Record<string, unknown>} changes
 * @returns {Promise<boolean>} Whether the constraint was saved.
 */
const change = (one, changes) =>
  attempt(
    () =>
      call("PUT", `api/constraints/${encodeURIComponent(one.name)}`, {
        body: { ...documentOf(one), ...changes },
        headers: { "If-Match": `"${one.etag}"` },
      }),
    t("constraints.saved"),
  );

/**
 * The button that pauses the jobs of a constraint, or ends their pause.
 * @param {{one: ListedConstraint, all: ListedConstraint[], onDone: () => Promise<void>}} props
 */
function RowPause({ one, all, onDone }) {
  const pause = all.find(
    (other) =>
      isPause(other.name) && toJson(other.matcher) === toJson(one.matcher) && other.name !== one.name,
  );
  const what = t("pause.what.constraint", { name: visible(one.name) });
  if (!pause && !one.paused)
    return html`<${PauseButton} isIcon target=${{ constraint: one.name }} what=${what} onDone=${onDone} />`;
  const resume = () => (pause ? endPause(pause.name, onDone) : change(one, { paused: false }).then(onDone));
  const label = `${t("constraints.unpause")}: ${what}`;
  return html`<button type="button" class="icon-button row-action" aria-label=${label} title=${label} onClick=${resume}><${Icon} name="resume" /></button>`;
}

/** @param {{name: string, go: typeof import("../../core/router.js").go, session: import("../../core/api.js").Session}} props */
function One({ name, go, session }) {
  useTitle(name);
  const path = /** @type {const} */ (`api/constraints/${encodeURIComponent(name)}`);
  const [dialog, setDialog] = useState("");
  const found = useResource((signal) => get(path, {}, signal), [name], {
    events: ["constraints", "jobs"],
    leastMs: 2000,
    everyMs: 5000,
  });
  const mayOperate = may(session, "operate");
  const one = found.data;
  if (!one) return html`<${Absent} page="constraints" title=${t("constraints.unknown")} found=${found} />`;
  return html`<p class="crumbs"><a href=${href("constraints")}>${t("nav.constraints")}</a></p>
    <div class="page-head job-head">
      <h1>${visible(one.name)}</h1><span><${Marks} constraint=${one} /></span>
    </div>
    <${ErrorBox} problem=${found.problem} onRetry=${found.reload} />
    ${
      mayOperate &&
      html`<${Actions} one=${one} path=${path} session=${session} go=${go} onAsk=${setDialog} onDone=${found.reload} />`
    }
    ${
      !isPause(one.name) &&
      html`<${Pauses} mayOperate=${mayOperate} isOf=${(/** @type {Constraint["matcher"]} */ matcher) => concerns(matcher, one.matcher)} />`
    }
    <div class="job-grid">
      <div class="stack"><${Now} one=${one} mayOperate=${mayOperate} /><${Matched} one=${one} /></div>
      <div class="stack">
        ${
          one.key &&
          html`<${KeyValues} one=${one} path=${path} mayOperate=${mayOperate} onDone=${found.reload} />`
        }
        <${Holders} holders=${one.holders} />
      </div>
    </div>
    ${mayOperate && html`<${Changes} name=${one.name} etag=${one.etag} />`}
    ${
      dialog === "edit" &&
      html`<${ConstraintEditor} constraint=${one} onClose=${() => setDialog("")} onDone=${found.reload} />`
    }
    ${
      dialog === "delete" &&
      html`<${Delete} one=${one} path=${path} onClose=${() => setDialog("")} onDone=${() => go("constraints")} />`
    }`;
}

/**
 * @param {{one: Detail, path: `api/constraints/${string}`, session: import("../../core/api.js").Session,
 *   go: typeof import("../../core/router.js").go, onAsk: (dialog: string) => void, onDone: () => Promise<void>}} props
 */
function Actions({ one, path, session, go, onAsk, onDone }) {
  const save = (/** @type {Record<string, unknown>} */ changes) => change(one, changes).then(onDone);
  const resume = () =>
    isPause(one.name) ? endPause(one.name, () => go("constraints")) : save({ paused: false });
  return html`<div class="row actions" role="group" aria-label=${t("job.actions")}>
      <${Button} opensDialog kind="primary" onClick=${() => onAsk("edit")}>${t("constraints.edit")}<//>
      ${
        one.paused
          ? html`<${Button} onClick=${resume}>${t("constraints.unpause")}<//>`
          : html`<${PauseButton}
              class="" target=${{ constraint: one.name }}
              what=${t("pause.what.constraint", { name: visible(one.name) })} onDone=${onDone} />`
      }
      <${Button} onClick=${() => save({ enabled: !one.enabled })}>
        ${t(one.enabled ? "constraints.disable" : "constraints.enable")}
      <//>
      <${Copy} label=${t("copy.curl")} text=${() => curl(session, "PUT", path, { body: documentOf(one) })} />
      <${Button} opensDialog kind="danger" onClick=${() => onAsk("delete")}>${t("action.delete")}<//>
    </div>`;
}

/** @param {{one: Detail, mayOperate: boolean}} props The limits of the constraint, and how much of each is in use. */
function Now({ one, mayOperate }) {
  const { usage } = one;
  return html`<section class="card">
      <h2>${t("constraints.now")}</h2>
      <dl class="facts">
        <dt>${t("constraints.limits")}</dt><dd>${limitsText(one)}</dd>
        ${
          one.reason && html`<dt>${t("pause.reason")}</dt><dd><${Text} value=${one.reason} max=${500} /></dd>`
        }
        ${one.expires_at && html`<dt>${t("pause.until")}</dt><dd><${Time} at=${one.expires_at} /></dd>`}
        ${
          one.created_by &&
          html`<dt>${t("pause.by")}</dt><dd title=${visible(one.created_by)}>${visible(whoText(one.created_by))}</dd>`
        }
        <dt>${t("constraints.usage")}</dt><dd><${Usage} constraint=${one} /></dd>
        <dt>${t("constraints.held_jobs")}</dt>
        <dd>
          ${
            usage.held === null
              ? html`<${Num} value=${null} />`
              : t("constraints.held_jobs.title", { held: usage.held, waiting: usage.waiting ?? 0 })
          }
        </dd>
        ${
          one.weight &&
          html`<dt>${t("constraints.units")}</dt><dd>${unitsText(usage, one.weight.unit) || html`<${Num} value=${null} />`}</dd>`
        }
        ${
          one.observed &&
          html`<dt>${t("constraints.observed")}</dt>
            <dd>
              ${t("constraints.observed.text", {
                units: number(one.observed.remaining),
                unit: one.weight?.unit ?? t("constraints.observed.starts"),
              })} <${Time} at=${one.observed.until} isNext />
            </dd>`
        }
        ${one.held_until && html`<dt>${t("constraints.held")}</dt><dd><${Time} at=${one.held_until} /></dd>`}
        ${
          usage.next_opening &&
          html`<dt>${t("constraints.opens")}</dt><dd><${Opening} at=${usage.next_opening} /></dd>`
        }
        ${
          one.mode === "shadow" &&
          html`<dt>${t("constraints.would")}</dt><dd><${Num} value=${usage.shadow_delayed} /></dd>`
        }
        <dt>${t("constraints.changed")}</dt>
        <dd>
          <${Time} at=${one.changed_at} />
          ${mayOperate && html` · <a href=${href("audit", { target: one.name })}>${t("nav.audit")}</a>`}
        </dd>
      </dl>
    </section>`;
}

/** @param {{one: Detail}} props The jobs that the constraint limits. */
function Matched({ one }) {
  return html`<section class="card">
      <h2>${t("constraints.matcher")}</h2><${RuleText} matcher=${one.matcher} />
      ${
        one.key &&
        html`<p>${t("constraints.key")}: <code>${visible(one.key)}</code>${one.fair && html` · ${t("constraints.fair")}`}</p>`
      }
      ${one.counts_awaiting === false && html`<p>${t("constraints.awaiting_free")}</p>`}
      <${Shares} one=${one} />
    </section>`;
}

/** @param {{holders: Holder[]}} props The jobs that hold slots of the constraint. */
function Holders({ holders }) {
  return html`<section class="card">
      <h2>${t("constraints.holders")} <span class="muted num">${number(holders.length)}</span></h2>
      ${
        holders.length === 0
          ? html`<p class="muted">${t("constraints.no_holders")}</p>`
          : html`<ul class="plain">
              ${holders.map(
                (holder) =>
                  html`<li key=${holder.job_id}>
                      <${Id} id=${holder.job_id} href=${href("job", { id: holder.job_id })} /> ${
                        holder.value !== null &&
                        html`<span class="muted"><${Text} value=${holder.value} max=${60} /></span> `
                      }
                      <${Time} at=${holder.since} />
                    </li>`,
              )}
            </ul>`
      }
    </section>`;
}

/** @param {{one: ListedConstraint, path: `api/constraints/${string}`, onClose: () => void, onDone: () => void}} props */
function Delete({ one, path, onClose, onDone }) {
  const [problem, setProblem] = useState(/** @type {Problem | null} */ (null));
  const act = async () => {
    try {
      await del(path);
      onDone();
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      setProblem(error);
    }
  };
  return html`<${Dialog} title=${t("constraints.delete.title")} onClose=${onClose}>
      <p>${t("constraints.delete.text", { name: visible(one.name), count: one.usage.waiting ?? 0 })}</p>
      <${ErrorBox} problem=${problem} />
      <footer>
        <${Button} onClick=${onClose}>${t("cancel")}<//>
        <${Button} kind="danger" onClick=${act}>${t("action.delete")} (1)<//>
      </footer>
    <//>`;
}

/** @param {Constraint} one A constraint from the API. Returns the fields that the API takes back. */
function documentOf(one) {
  const { matcher, key, overrides, enabled, mode, reason, expires_at } = one;
  return {
    enabled,
    mode,
    matcher,
    ...(key && { key }),
    ...limitsOf(one, LIMIT_KINDS),
    overrides,
    ...(one.reserve?.length && { reserve: one.reserve }),
    reason,
    expires_at,
  };
}
