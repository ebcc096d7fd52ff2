/** One batch: its progress, why it is not complete, and the actions on it. */
import { get, may, post, toJson } from "../core/api.js";
import { BatchState, BatchStrip, BatchWhy, Callbacks, countsOf, shareOf, titleOf } from "./parts.js";
import { Flow, loadFlow } from "../jobs/flow.js";
import { number, t } from "../core/i18n.js";
import { html, useState } from "../core/lib.js";
import { useResource } from "../core/resource.js";
import { href } from "../core/router.js";
import { visible } from "../core/text.js";
import { Absent } from "../ui/absent.js";
import { Button, Copy, CopyMenu, ErrorBox } from "../ui/controls.js";
import { ConfirmCount, toast } from "../ui/dialogs.js";
import { Badge, Duration, Id, Num, State, Text, Time } from "../ui/formats.js";
import { useTitle } from "../ui/titles.js";
import { Members } from "./members.js";

/** @typedef {import("./parts.js").Batch} Batch */

/** Also polls, because some changes, such as sealing, cause no event. @type {import("../core/resource.js").Reading} */
export const READ = { events: ["jobs", "batches"], leastMs: 2000, everyMs: 5000, pollMs: 5000 };

/** @param {{id: string, query: Record<string, string>, go: typeof import("../core/router.js").go, session: import("../core/api.js").Session}} props */
export function One({ id, query, go, session }) {
  const [dialog, setDialog] = useState("");
  const path = /** @type {const} */ (`api/batches/${encodeURIComponent(id)}`);
  const found = useResource(
    async (signal) => {
      const [batch, why, flow] = await Promise.all([
        get(path, {}, signal),
        get(`${path}/why`, {}, signal),
        loadFlow(`${path}/flow`, signal),
      ]);
      return { batch, why, flow };
    },
    [id],
    READ,
  );
  const batch = found.data?.batch;
  useTitle(batch ? `${shareOf(batch)} % · ${titleOf(batch)} · ${t("batches.batch")}` : null);
  if (!found.data || !batch)
    return html`<${Absent} page="batches" title=${t("batches.unknown")} found=${found}>
      <p><code>${visible(id)}</code></p><p>${t("batches.unknown.text")}</p><//>`;
  const { why, flow } = found.data;
  return html`<p class="crumbs">
      <a href=${href("batches")}>${t("nav.batches")}</a>
      ${
        batch.batch &&
        html` / <a href=${href("batches", { id: batch.batch })}>…${visible(batch.batch.slice(-10))}</a>`
      }
    </p>
    <div class="page-head job-head">
      <h1><${Text} value=${titleOf(batch)} max=${120} /></h1><${BatchState} batch=${batch} />
    </div>
    <div class="row job-id">
      <code class="id">${visible(batch.id)}</code> <${CopyMenu}>
        <${Copy} text=${batch.id} label=${t("copy.id")} /> <${Copy}
          text=${() => toJson(batch, 2)} label=${t("copy.json")} />
      <//>
    </div>
    <${ErrorBox} problem=${found.problem} onRetry=${found.reload} />
    <${Actions} batch=${batch} session=${session} onAsk=${setDialog} />
    <${Progress} batch=${batch} />
    <div class="job-grid">
      <div class="stack"><${BatchWhy} batch=${batch} why=${why} /><${Callbacks} batch=${batch} /></div>
      <div class="stack"><${Facts} batch=${batch} /></div>
    </div>
    ${
      flow &&
      html`<section class="card after" aria-labelledby="flow">
          <h2 id="flow">${t("flow")}</h2>
          <${Flow} key=${id} flow=${flow} session=${session} onChange=${found.reload} />
        </section>`
    }
    <${Members} batch=${batch} query=${query} go=${go} />
    ${
      dialog &&
      html`<${Ask} key=${dialog} action=${dialog} batch=${batch} path=${path} onClose=${() => setDialog("")} onDone=${found.reload} />`
    }`;
}

/** @param {{batch: Batch, session: import("../core/api.js").Session, onAsk: (action: string) => void}} props */
function Actions({ batch, session, onAsk }) {
  const mayPush = may(session, "push");
  const isCanceled = batch.canceled_at !== null;
  const retryable = batch.counts.failed + batch.batches.failed;
  return html`<div class="row actions" role="group" aria-label=${t("batches.actions")}>
      ${
        mayPush &&
        batch.state === "open" &&
        !isCanceled &&
        html`<${Button} opensDialog kind="primary" onClick=${() => onAsk("seal")}>${t("batches.seal")}<//>`
      }
      ${
        may(session, "operate") &&
        retryable > 0 &&
        html`<${Button} opensDialog kind=${batch.state === "open" ? "" : "primary"} onClick=${() => onAsk("retry")}>${t("batches.retry")}<//>`
      }
      ${
        mayPush &&
        batch.state !== "complete" &&
        !isCanceled &&
        html`<${Button} opensDialog kind="danger" onClick=${() => onAsk("cancel")}>${t("batches.cancel")}<//>`
      }
    </div>`;
}

/** @param {{batch: Batch}} props */
function Progress({ batch }) {
  const { total, unfinished } = batch.counts;
  const counts = countsOf(batch);
  return html`<section class="card" aria-label=${t("batches.over")}>
      <p class="batch-over">
        <b class="num">${number(shareOf(batch))} %</b> <span>
          ${t("batches.over_of", { over: total - unfinished, total })}
        </span>
        ${
          batch.batches.total > 0 &&
          html` <span class="muted">${t("batches.inside_of", { over: batch.batches.succeeded + batch.batches.failed, total: batch.batches.total })}</span>`
        }
      </p>
      <${BatchStrip} batch=${batch} />
      <ul class="batch-counts">
        ${counts.map(
          ([state, count]) =>
            html`<li key=${state}>
                ${
                  state === "unfinished"
                    ? html`<span class="muted">${t("batches.unfinished")}</span>`
                    : html`<${State} state=${state} />`
                } <b class="num">${number(count)}</b>
              </li>`,
        )}
        ${
          batch.counts.deleted > 0 &&
          html`<li><span class="muted">${t("batches.deleted")}</span> <b class="num">${number(batch.counts.deleted)}</b></li>`
        }
      </ul>
    </section>`;
}

/** @param {{batch: Batch}} props */
function Facts({ batch }) {
  const isLong = batch.description !== titleOf(batch) && batch.description !== "";
  const end = batch.completed_at ?? null;
  return html`<section class="card">
      <h2>${t("job.facts")}</h2>
      <dl class="facts">
        <dt>${t("job.created")}</dt><dd><${Time} at=${batch.created_at} /></dd>
        ${
          end &&
          html`<dt>${t("batches.completed")}</dt>
            <dd>
              <${Time} at=${end} /> <span class="muted">
                ${t("batches.after")} <${Duration} ms=${Date.parse(end) - Date.parse(batch.created_at)} />
              </span>
            </dd>`
        }
        ${
          batch.canceled_at &&
          html`<dt>${t("batches.canceled")}</dt><dd><${Time} at=${batch.canceled_at} /></dd>`
        }
        ${batch.expires_at && html`<dt>${t("job.expires")}</dt><dd><${Time} at=${batch.expires_at} /></dd>`}
        ${
          batch.batch &&
          html`<dt>${t("batches.parent")}</dt><dd><${Id} id=${batch.batch} href=${href("batches", { id: batch.batch })} /></dd>`
        }
        ${
          batch.batches.total > 0 &&
          html`<dt>${t("batches.children")}</dt>
            <dd>
              <${Num} value=${batch.batches.total} /> <span class="muted">
                ${t("batches.children.of", {
                  succeeded: batch.batches.succeeded,
                  failed: batch.batches.failed,
                })}
              </span>
            </dd>`
        }
        ${
          batch.tags.length > 0 &&
          html`<dt>${t("job.tags")}</dt>
            <dd>
              ${batch.tags.map(
                (tag) =>
                  html`<a key=${tag} class="chip" href=${href("batches", { tag })}><${Text} value=${tag} max=${64} /></a> `,
              )}
            </dd>`
        }
        ${
          isLong &&
          html`<dt>${t("batches.description")}</dt><dd><${Text} value=${batch.description} max=${500} isBlock /></dd>`
        }
      </dl>
    </section>`;
}

/**
 * Ask for confirmation before the batch is sealed, canceled or retried.
 *
 * @param {{action: string, batch: Batch, path: string, onClose: () => void, onDone: () => Promise<void>}} props
 */
function Ask({ action, batch, path, onClose, onDone }) {
  const { counts } = batch;
  const count = action === "retry" ? counts.failed : counts.unfinished;
  const inside = action === "seal" ? 0 : batch.batches.total;
  const confirm = async () => {
    await post(`${path}/${action}`);
    toast(t(`batches.${action}.done`));
    await onDone();
  };
  return html`<${ConfirmCount}
      title=${t(`batches.${action}.title`)} count=${count} counted=${t(`batches.${action}.count`, { count })}
      isAlways verb=${t(`batches.${action}`)} kind=${action === "cancel" ? "danger" : "primary"}
      onClose=${onClose} onConfirm=${confirm}>
      <p>${t(`batches.${action}.text`)}</p>
      ${inside > 0 && html`<p>${t("batches.also_inside", { count: inside })}</p>`}
      ${
        action === "retry" &&
        (counts.gone ?? 0) > 0 &&
        html`<p class="warning" role="note">${t("batches.retry.gone", { count: counts.gone ?? 0 })}</p>`
      }
      ${
        action === "cancel" &&
        batch.callbacks.on_complete?.state === "waiting" &&
        html`<p><${Badge} kind="info">${t("batches.on_complete")}<//> ${t("batches.cancel.cleanup", { name: visible(batch.callbacks.on_complete.name) })}</p>`
      }
    <//>`;
}
