/**
 * HTTP targets, which are endpoints that run jobs without a worker, and their answers. People create, change and test
 * targets here.
 */
import { Problem, call, del, get, may } from "../../core/api.js";
import { Changes } from "../../identity/changes.js";
import { curl } from "../../core/curl.js";
import { t, tOr } from "../../core/i18n.js";
import { html, useState } from "../../core/lib.js";
import { useResource } from "../../core/resource.js";
import { href } from "../../core/router.js";
import { visible } from "../../core/text.js";
import { Absent } from "../../ui/absent.js";
import { Button, Code, Copy, ErrorBox } from "../../ui/controls.js";
import { Dialog, Sure } from "../../ui/dialogs.js";
import { Badge, Duration, Id, Num, Text, Time, perSText } from "../../ui/formats.js";
import { Field } from "../../ui/forms.js";
import { NamedList } from "../../ui/named_list.js";
import { useTitle } from "../../ui/titles.js";
import { whoText } from "../../identity/value_words.js";
import { TargetEditor, pathOfTarget } from "../editor.js";

/** @typedef {import("../../../answers").Schemas["TargetTest"]} TargetTest */

/** @typedef {import("../../core/lib.js").FieldEvent} FieldEvent */

/** @typedef {import("../../../answers").Schemas["TargetDetail"]} TargetDetail */

const EXAMPLE = { names: ["mail.*"], url: "https://app.example/jobs/{name}", max_running: 20 };
/** @type {import("../../core/resource.js").Reading} */
const READ = { events: ["jobs"], leastMs: 2000, everyMs: 5000 };
const KINDS = /** @type {Record<string, import("../../ui/formats.js").Kind>} */ ({
  succeeded: "ok",
  awaiting: "info",
  not_ready: "warn",
  unreachable: "bad",
  failed: "bad",
  rejected: "bad",
});

/** @param {{query: Record<string, string>, go: typeof import("../../core/router.js").go, session: import("../../core/api.js").Session}} props */
export function Page({ query, go, session }) {
  return query["name"]
    ? html`<${One} key=${query["name"]} name=${query["name"]} go=${go} session=${session} />`
    : html`<${List} session=${session} />`;
}

/** @param {TargetDetail} one @returns {string} Where its requests go. */
const addressOf = (one) => (typeof one.url === "string" ? one.url : one.url.from);

/** @param {{result: string}} props */
const Outcome = ({ result }) =>
  html`<${Badge} kind=${KINDS[result] ?? "info"}>${tOr(`targets.result.${result}`, visible(result))}<//>`;

/** @param {{one: TargetDetail}} props */
function Reach({ one }) {
  if (one.unreachable.length > 0) return html`<${Badge} kind="bad">${t("targets.unreachable")}<//>`;
  const last = one.figures.last[0];
  return last
    ? html`<${Outcome} result=${last.result} />`
    : html`<${Badge} kind="off">${t("targets.idle")}<//>`;
}

/** @param {{one: TargetDetail}} props */
const Running = ({ one }) =>
  html`<span class="num"><${Num} value=${one.running} /> / <${Num} value=${one.max_running} /></span>`;

/** @param {{one: TargetDetail}} props */
const Took99 = ({ one }) =>
  one.figures.took ? html`<${Duration} ms=${one.figures.took.p99_ms} />` : html`<${Num} value=${null} />`;

/** @param {{session: import("../../core/api.js").Session}} props */
function List({ session }) {
  const found = useResource((signal) => get("api/targets", {}, signal), [], READ);
  return html`<${NamedList}
      page="targets" session=${session} found=${found} rows=${found.data?.targets} columns=${COLUMNS}
      example=${curl(session, "PUT", "api/targets/app", { body: EXAMPLE })}
      editor=${(/** @type {() => void} */ onClose, /** @type {(name: string) => void} */ onDone) =>
        html`<${TargetEditor} target=${null} onClose=${onClose} onDone=${onDone} />`} />`;
}

/** @type {(import("../../ui/tables.js").Column<TargetDetail> & {label: string})[]} */
const COLUMNS = [
  {
    key: "name",
    label: "job.name",
    phone: "main",
    render: (one) =>
      html`<a href=${href("targets", { name: one.name })} title=${visible(one.name)}>${visible(one.name)}</a>`,
  },
  {
    key: "address",
    label: "targets.address",
    phone: "line",
    priority: 2,
    render: (one) =>
      html`<span title=${visible(addressOf(one))}><${Text} value=${addressOf(one)} max=${120} /></span>`,
  },
  {
    key: "names",
    label: "targets.names",
    priority: 2,
    render: (one) =>
      html`<span title=${visible(one.names.join(", "))}><${Text} value=${one.names.join(", ")} max=${120} /></span>`,
  },
  {
    key: "state",
    label: "targets.last",
    width: 10,
    phone: "side",
    render: (one) => html`<${Reach} one=${one} />`,
  },
  {
    key: "running",
    label: "targets.running",
    width: 10.5,
    align: "end",
    priority: 2,
    render: (one) => html`<${Running} one=${one} />`,
  },
  {
    key: "rate",
    label: "targets.rate",
    width: 7,
    align: "end",
    render: (one) => html`<span class="num">${perSText(one.figures.requests_per_s)}</span>`,
  },
  {
    key: "p99",
    label: "targets.p99",
    width: 5.5,
    align: "end",
    priority: 2,
    render: (one) => html`<${Took99} one=${one} />`,
  },
];

/** @param {{name: string, go: typeof import("../../core/router.js").go, session: import("../../core/api.js").Session}} props */
function One({ name, go, session }) {
  const path = pathOfTarget(name);
  const [dialog, setDialog] = useState("");
  const found = useResource((signal) => get(path, {}, signal), [name], READ);
  useTitle(name);
  const one = found.data;
  const mayOperate = may(session, "operate");
  if (!one)
    return html`<${Absent} page="targets" title=${t("targets.unknown", { name: visible(name) })} found=${found} />`;
  return html`<p class="crumbs"><a href=${href("targets")}>${t("nav.targets")}</a></p>
    <div class="page-head job-head"><h1><${Text} value=${name} max=${60} /></h1><${Reach} one=${one} /></div>
    <${ErrorBox} problem=${found.problem} onRetry=${found.reload} />
    ${
      mayOperate &&
      html`<div class="row actions" role="group" aria-label=${t("targets.actions")}>
      <${Button} opensDialog kind="primary" onClick=${() => setDialog("test")}>${t("targets.test")}<//>
      <${Button} opensDialog onClick=${() => setDialog("edit")}>${t("targets.edit")}<//>
      <${Copy} label=${t("copy.curl")} text=${() => curl(session, "PUT", path, { body: documentOf(one) })} />
      <${Button} opensDialog kind="danger" onClick=${() => setDialog("delete")}>${t("action.delete")}<//></div>`
    }
    ${
      one.unreachable.length > 0 &&
      html`<div class="card">
          <h2>${t("targets.unreachable")}</h2>
          <ul class="plain">
            ${one.unreachable.map(
              (/** @type {string} */ why) => html`<li key=${why}><${Text} value=${why} max=${300} /></li>`,
            )}
          </ul>
        </div>`
    }
    <div class="job-grid">
      <div class="stack"><${Answers} one=${one} /></div>
      <div class="stack"><${Now} one=${one} /><${Facts} one=${one} /></div>
    </div>
    ${mayOperate && html`<${Changes} name=${one.name} etag=${one.etag} />`}
    ${
      dialog === "test" &&
      html`<${Test} path=${path} onClose=${() => setDialog("")} onDone=${found.reload} />`
    }
    ${
      dialog === "edit" &&
      html`<${TargetEditor} target=${one} onClose=${() => setDialog("")} onDone=${found.reload} />`
    }
    ${
      dialog === "delete" &&
      html`<${Sure}
          title=${t("targets.delete.title")} verb=${t("action.delete")}
          onConfirm=${() => del(path).then(() => go("targets"))} onClose=${() => setDialog("")}>
          <p>${t("targets.delete.text", { name: visible(name) })}</p>
        <//>`
    }`;
}

/** @param {TargetDetail} one A target from the API. Returns the fields that the API takes back. */
function documentOf(one) {
  const { names, url, method, body, headers, max_running, max_running_per_host } = one;
  const { ok, final, timeout, not_ready_for_s, allow_hosts, description } = one;
  return {
    names,
    url,
    method,
    body,
    headers,
    max_running,
    max_running_per_host,
    ok,
    final,
    timeout,
    not_ready_for_s,
    allow_hosts,
    description,
  };
}

/** @param {{one: TargetDetail}} props The newest answers. Their bodies are shown to users who may see content. */
function Answers({ one }) {
  const last = one.figures.last;
  return html`<section class="card" aria-labelledby="answers">
      <h2 id="answers">${t("targets.answers")}</h2>
      ${
        last.length === 0
          ? html`<p class="muted">${t("targets.answers.none")}</p>`
          : html`<ol class="attempts">
              ${last.map(
                (answer) => html`<li key=${`${answer.job_id} ${answer.at}`} class="attempt">
                    <p class="row">
                      <${Outcome} result=${answer.result} /> ${
                        answer.status !== null && html`<span class="num">${answer.status}</span> `
                      }
                      <${Id} id=${answer.job_id} href=${href("job", { id: answer.job_id })} /> <span
                        class="muted">
                        <${Time} at=${answer.at} /> · <${Duration} ms=${answer.took_ms} />
                      </span>
                    </p>
                    <p><${Text} value=${answer.detail} max=${300} /></p>
                    ${answer.body && html`<p class="muted"><${Text} value=${answer.body} max=${300} /></p>`}
                  </li>`,
              )}
            </ol>`
      }
    </section>`;
}

/** @param {{one: TargetDetail}} props */
function Now({ one }) {
  const { took, results, requests_per_s: rate } = one.figures;
  return html`<section class="card">
      <h2>${t("targets.now")}</h2>
      <dl class="facts">
        <dt>${t("targets.running")}</dt><dd><${Running} one=${one} /></dd>
        <dt>${t("targets.rate")}</dt><dd class="num">${perSText(rate)}</dd>
        ${
          took &&
          html`<dt>${t("targets.took")}</dt>
            <dd>
              p50 <${Duration} ms=${took.p50_ms} /> · p95 <${Duration} ms=${took.p95_ms} /> · p99 <${Duration}
                ms=${took.p99_ms} />
            </dd>`
        }
        ${Object.entries(results).map(
          ([result, count]) =>
            html`<dt key=${result}>${tOr(`targets.result.${result}`, visible(result))}</dt><dd><${Num} value=${count} /></dd>`,
        )}
      </dl>
    </section>`;
}

/** @param {{one: TargetDetail}} props */
function Facts({ one }) {
  return html`<section class="card">
      <h2>${t("targets.facts")}</h2>
      <dl class="facts">
        <dt>${t("targets.address")}</dt>
        <dd><code>${one.method}</code> <${Text} value=${addressOf(one)} max=${300} /></dd>
        <dt>${t("targets.names")}</dt><dd><${Text} value=${one.names.join(", ")} max=${500} /></dd>
        ${
          one.serving.length > 0 &&
          html`<dt>${t("targets.serving")}</dt><dd><${Text} value=${one.serving.join(", ")} max=${500} /></dd>`
        }
        ${
          one.left_out > 0 &&
          html`<dt>${t("targets.left_out")}</dt>
            <dd>
              <${Badge} kind="bad">${t("targets.left_out.names", { count: one.left_out })}<//> ${t(
                "targets.left_out.text",
                { most: one.serving.length },
              )}
            </dd>`
        }
        <dt>${t("targets.body")}</dt><dd>${tOr(`targets.body.${one.body}`, visible(one.body))}</dd>
        <dt>${t("targets.ok")}</dt><dd class="num">${one.ok.join(", ")}</dd>
        <dt>${t("targets.final")}</dt><dd class="num">${one.final.join(", ")}</dd>
        ${
          one.timeout !== null &&
          html`<dt>${t("targets.timeout")}</dt><dd><${Duration} ms=${one.timeout * 1000} /></dd>`
        }
        <dt>${t("targets.signed")}</dt>
        <dd>
          ${t(one.has_secret ? "yes" : "no")}
          ${
            one.previous_secret_until &&
            html` · ${t("targets.previous_secret")} <${Time} at=${one.previous_secret_until} isNext />`
          }
        </dd>
        ${
          one.allow_hosts.length > 0 &&
          html`<dt>${t("targets.allow_hosts")}</dt><dd><${Text} value=${one.allow_hosts.join(", ")} max=${300} /></dd>`
        }
        ${
          one.description &&
          html`<dt>${t("targets.description")}</dt><dd><${Text} value=${one.description} max=${500} /></dd>`
        }
        <dt>${t("targets.changed")}</dt><dd><${Time} at=${one.changed_at} /></dd>
        <dt>${t("pause.by")}</dt><dd title=${visible(one.created_by)}>${visible(whoText(one.created_by))}</dd>
      </dl>
    </section>`;
}

/**
 * The dialog that tests a target: it sends a request for a job that does not exist.
 *
 * @param {{path: `api/targets/${string}`, onClose: () => void, onDone: () => unknown}} props
 */
function Test({ path, onClose, onDone }) {
  const [argument, setArgument] = useState("{}");
  const [fault, setFault] = useState("");
  const [problem, setProblem] = useState(/** @type {Problem | null} */ (null));
  const [found, setFound] = useState(/** @type {TargetTest | null} */ (null));
  const [isSending, setSending] = useState(false);
  const send = async (/** @type {Event} */ event) => {
    event.preventDefault();
    /** @type {unknown} */
    let value;
    try {
      value = JSON.parse(argument);
    } catch {
      setFault(t("targets.test.no_json"));
      return;
    }
    setFault("");
    setProblem(null);
    setSending(true);
    try {
      setFound(await call("POST", `${path}/test`, { body: { argument: value } }));
      onDone();
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      setProblem(error);
    } finally {
      setSending(false);
    }
  };
  return html`<${Dialog} isWide title=${t("targets.test.title")} onClose=${onClose}>
      <form onSubmit=${send}>
        <p class="muted">${t("targets.test.text")}</p>
        <${Field} label=${t("job.argument")}>
          ${(/** @type {Record<string, unknown>} */ attributes) =>
            html`<textarea
                ...${attributes} rows="3" spellcheck=${false} value=${argument}
                onInput=${(/** @type {FieldEvent} */ event) => setArgument(event.target.value)}></textarea>`}
        <//>
        ${fault && html`<p class="field-error" role="alert">${fault}</p>`}
        <${ErrorBox} problem=${problem} />
        ${found && html`<${Exchange} found=${found} />`}
        <footer>
          <${Button} onClick=${onClose}>${t("close")}<//>
          <${Button} type="submit" kind="primary" disabled=${isSending}>${t("targets.test.send")}<//>
        </footer>
      </form>
    <//>`;
}

/** @param {{found: TargetTest}} props */
function Exchange({ found }) {
  const { request, answer } = found;
  return html`<section aria-live="polite">
      <p class="row">
        <${Outcome} result=${found.result} /> <span class="num">${answer?.status}</span> <${Duration}
          ms=${found.took_ms} /> <${Text} value=${found.detail} max=${300} />
      </p>
      <h3>${t("targets.test.request")}</h3>
      <${Code}
        label=${t("targets.test.request")}
        text=${`${request.method} ${request.url}\n${lines(request.headers)}\n\n${request.body}`} />
      <h3>${t("targets.test.answer")}</h3>
      ${
        answer
          ? html`<${Code} label=${t("targets.test.answer")} text=${`${answer.status}\n${lines(answer.headers)}\n\n${answer.body}`} />`
          : html`<p class="muted">${t("targets.test.no_answer")}</p>`
      }
    </section>`;
}

/** @param {Record<string, string>} headers */
const lines = (headers) =>
  Object.entries(headers)
    .map(([name, value]) => `${name}: ${value}`)
    .join("\n");
