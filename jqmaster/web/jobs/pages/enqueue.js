/** Enqueue a job by hand, from an empty form or from an old job. Before the job is sent, the page shows the constraints that will limit it. */
import { html, useEffect, useMemo, useRef, useState } from "../../core/lib.js";
import { Problem, call, get, may, parseExact, toJson } from "../../core/api.js";
import { ArgumentForm, useArgument, useContract } from "../argument_form.js";
import { curl } from "../../core/curl.js";
import { labelsIn, labelsText } from "../../workers/labels.js";
import { t } from "../../core/i18n.js";
import { limitTexts } from "../../constraints/limits.js";
import { useResource } from "../../core/resource.js";
import { href } from "../../core/router.js";
import { visible } from "../../core/text.js";
import { Button, Copy, Empty, ErrorBox } from "../../ui/controls.js";
import { toast } from "../../ui/dialogs.js";
import { Badge, Text } from "../../ui/formats.js";
import { FormCheck, FormField, FormMore, useForm } from "../../ui/forms.js";
import { LATEST, editedInstant, inZone, useZone } from "../../ui/instants.js";
import { isArgumentIncomplete, specOf } from "../job_spec.js";

/** @typedef {import("../../../answers").Schemas["JobView"]} JobView */
/** @typedef {import("../../../answers").Schemas["NameContract"]} Contract */
/** @typedef {import("../../ui/forms.js").FormInputs} FormInputs */
/** @typedef {import("../../../answers").Schemas["AppliedConstraintView"]} Applied */
/** @typedef {import("../../../answers").Schemas["MisfitView"]} Misfit */

const PREVIEW_MS = 500;
/** @type {Record<string, string>} */
const BLANK = {
  name: "",
  argument: "{}",
  // How the argument is entered: by `fields` or as `json`. "": the user has not chosen, and fields are used if
  // possible.
  mode: "",
  key: "",
  priority: "0",
  max_retry: "5",
  timeout: "30",
  when: "now",
  delay: "60",
  run_at: "",
  expires_s: "",
  expires_at: "",
  tags: "",
  headers: "",
  requires: "",
  keep_result: "",
  rerun_lost: "",
  left_out: "",
};
// Options that workers report for a name, and that this form can show.
const TOLD = ["priority", "max_retry", "timeout", "tags", "keep_result", "rerun_lost"];
// Fields that are hidden while they are empty.
const SELDOM = ["requires", "expires_s", "expires_at", "key", "headers", "rerun_lost"];
// The text in the API's answers that replaces secret values.
const REDACTED = "[redacted]";

/** @param {{query: Record<string, string>, go: typeof import("../../core/router.js").go, session: import("../../core/api.js").Session}} props */
export function Page({ query, go, session }) {
  if (!may(session, "push"))
    return html`<h1>${t("nav.enqueue")}</h1><div class="card"><${Empty} title=${t("enqueue.forbidden")} /></div>`;
  return html`<${Enqueue} query=${query} go=${go} session=${session} />`;
}

/** @param {{query: Record<string, string>, go: typeof import("../../core/router.js").go, session: import("../../core/api.js").Session}} props */
function Enqueue({ query, go, session }) {
  useZone();
  const form = useForm(null, () => ({ ...BLANK, name: query["name"] ?? "" }));
  const { values, problem } = form;
  // Whether the user has pressed Enqueue. Until then, empty fields are not shown as errors.
  const [isTried, setTried] = useState(false);
  const from = query["from"];
  const contract = useContract(values["name"]?.trim() ?? "");
  const argument = useArgument(form, contract);
  useCopied(from, form, argument);
  const told = useToldOptions(form, contract, Boolean(from));
  const made = useMemo(() => bodyOf({ ...values, argument: argument.text }), [values, argument.text]);
  const preview = usePreview(made.text);
  const { sent, setSent, send } = useSending(form);
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    setSent(null);
    setTried(true);
    if (argument.problems.length > 0 || argument.missing.length > 0) {
      form.setProblem(null);
      const page = /** @type {HTMLFormElement} */ (event.target);
      requestAnimationFrame(() => focusOn(page.querySelector("[aria-invalid=true]")));
    } else if (made.text === undefined) form.setProblem(made.problem ?? null);
    else await send(made.text, () => setTried(false));
  };
  const shown = problem ?? preview.problem;
  const faults = [...argument.problems, ...(isTried ? argument.missing : [])];
  const ofArgument =
    made.problem ?? argumentProblem(faults, shown, argument.missing.length > 0, preview.misfits);
  return html`<div class="page-head">
      <h1>${t("nav.enqueue")}</h1>
      ${
        made.body &&
        html`<${Copy} text=${() => curl(session, "POST", "api/jobs", { body: made.body })} label=${t("copy.curl")} />`
      }
    </div>
    ${
      from &&
      html`<p class="muted">${t("enqueue.from")} <a class="id" href=${href("job", { id: from })}>${visible(from)}</a></p>`
    }
    ${values["left_out"] && html`<div class="card" role="note">${t("enqueue.left_out")}</div>`}
    ${
      sent &&
      html`<div class="sent card" role="status">
          <strong>${t(sent.isNew ? "enqueue.done" : "enqueue.was_there")}</strong> <a
            class="id" href=${href("job", { id: sent.id })}>
            ${visible(sent.id)}
          </a> <${Button} class="small" onClick=${() => go("job", { id: sent.id })}>${t("enqueue.show")}<//>
        </div>`
    }
    <div class="job-grid">
      <form class="card stack" onSubmit=${submit} novalidate>
        <${NameField} form=${form} problem=${shown} />
        <${ArgumentForm} form=${form} argument=${argument} problem=${ofArgument} />
        ${told && html`<p class="hint" role="note">${t("enqueue.told")}</p>`}
        <${Terms} form=${form} problem=${shown} />
        <${SeldomTerms} form=${form} problem=${shown} />
        <${ErrorBox} problem=${problem} />
        <div><button class="button primary" disabled=${form.isBusy}>${t("nav.enqueue")}</button></div>
      </form>
      <${Preview} preview=${preview} isReady=${Boolean(made.text && values["name"])} />
    </div>`;
}

/**
 * Fill in the form from another job.
 * @param {string | undefined} from The ID of that job.
 * @param {FormInputs} form
 * @param {ReturnType<typeof useArgument>} argument
 */
function useCopied(from, form, argument) {
  useEffect(() => {
    if (!from) return;
    get(`api/jobs/${encodeURIComponent(from)}`).then(
      (job) => {
        const { argument: given = "", ...rest } = formOf(job);
        form.set(rest);
        argument.give(given);
      },
      (error) => form.setProblem(error instanceof Problem ? error : null),
    );
  }, [from]);
}

/**
 * Send the content of the form. `sent`: the job that was created or already existed.
 * @param {FormInputs} form
 */
function useSending(form) {
  const [sent, setSent] = useState(/** @type {{id: string, isNew: boolean} | null} */ (null));
  // The idempotency key for this content of the form. A second press, or a press after a missing answer, enqueues no
  // second job.
  const key = useRef("");
  useMemo(() => {
    key.current = newKey();
  }, [form.values]);
  const send = (/** @type {string} */ text, /** @type {() => void} */ onDone) =>
    form.run(async () => {
      let isNew = true;
      const answer = await call("POST", "api/jobs", {
        text,
        // If the form contains an idempotency key, use it instead of ours.
        ...(!form.values["key"] && { headers: { "Idempotency-Key": key.current } }),
        heard: (response) => (isNew = response.status === 201),
      });
      setSent({ id: answer.id, isNew });
      onDone();
      key.current = newKey();
      toast(t(isNew ? "enqueue.done" : "enqueue.was_there"));
    });
  return { sent, setSent, send };
}

/** @param {{form: FormInputs, problem: Problem | null}} props The name, and a warning if no live worker serves it. */
function NameField({ form, problem }) {
  const typedName = form.values["name"]?.trim() ?? "";
  const names = useKnownNames();
  const isUnknown = typedName !== "" && names !== null && !names.includes(typedName);
  return html`<${FormField}
      form=${form} name="name" problem=${problem} label=${t("job.name")} hint=${t("enqueue.name.hint")}
      list="known-names" maxlength="200" autocapitalize="none" spellcheck=${false} />
    ${
      isUnknown &&
      html`<p class="warning" role="status">${t("enqueue.no_worker", { name: visible(typedName) })}</p>`
    }
    <datalist id="known-names">${names?.map((name) => html`<option key=${name} value=${name} />`)}</datalist>`;
}

/** @param {{form: FormInputs, problem: Problem | null}} props */
function Terms({ form, problem }) {
  const { values } = form;
  return html`<div class="form-grid">
      <${FormField} form=${form} name="when" as="select" label=${t("enqueue.when")}>
        ${["now", "delay", "run_at"].map(
          (one) => html`<option key=${one} value=${one}>${t(`enqueue.when.${one}`)}</option>`,
        )}
      <//>
      ${
        values["when"] === "delay" &&
        html`<${FormField} form=${form} name="delay" problem=${problem} label=${t("enqueue.delay")} type="number" min="0" step="any" />`
      }
      ${
        values["when"] === "run_at" &&
        html`<${FormField}
            form=${form} name="run_at" problem=${problem} label=${inZone(t("job.due"), values["run_at"])}
            type="datetime-local" step="1" max=${LATEST} />`
      }
      <${FormField}
        form=${form} name="priority" problem=${problem} label=${t("job.priority")}
        hint=${t("job.priority.hint")} type="number" step="1" />
      <${FormField}
        form=${form} name="max_retry" problem=${problem} label=${t("job.max_retry")} type="number" min="0"
        max="1000" step="1" />
      <${FormField}
        form=${form} name="timeout" problem=${problem} label=${t("job.timeout_s")} type="number" min="0.001"
        step="any" />
      <${FormField}
        form=${form} name="tags" problem=${problem} label=${t("job.tags")} hint=${t("enqueue.tags.hint")}
        spellcheck=${false} />
    </div>
    <div class="row"><${FormCheck} form=${form} name="keep_result">${t("job.keep_result")}<//></div>`;
}

/** @param {{form: FormInputs, problem: Problem | null}} props */
function SeldomTerms({ form, problem }) {
  return html`<${FormMore} form=${form} names=${SELDOM} problem=${problem} label=${t("enqueue.more")}>
      <div class="form-grid">
        <${FormField}
          form=${form} name="requires" problem=${problem} label=${t("job.requires")}
          hint=${t("job.requires.hint")} spellcheck=${false} />
        <${FormField}
          form=${form} name="expires_s" problem=${problem} label=${t("job.expires_s")}
          hint=${t("job.expires_s.hint")} type="number" min="0.001" step="any" />
        <${FormField}
          form=${form} name="expires_at" problem=${problem}
          label=${inZone(t("job.expires"), form.values["expires_at"])} type="datetime-local" step="1"
          max=${LATEST} />
        <${FormField}
          form=${form} name="key" problem=${problem} label=${t("enqueue.key")} hint=${t("enqueue.key.hint")}
          autocapitalize="none" spellcheck=${false} />
      </div>
      <${FormField}
        form=${form} name="headers" as="textarea" class="short" rows="2" problem=${problem}
        label=${t("job.headers")} hint=${t("enqueue.headers.hint")} spellcheck=${false} />
      <div class="row"><${FormCheck} form=${form} name="rerun_lost">${t("job.rerun_lost")}<//></div>
    <//>`;
}

/**
 * Return the fault of the argument that its fields found, or else the fault that the API found.
 * @param {import("../../core/api.js").FieldProblem[]} faults
 * @param {Problem | null} problem
 * @param {boolean} isMissing Whether required fields are empty. The same error of the API is then left out.
 * @param {import("../../core/api.js").FieldProblem[]} misfits
 */
function argumentProblem(faults, problem, isMissing, misfits) {
  const found = new Set(faults.map((fault) => fault.loc.join(".")));
  const given = problem?.errors.some((error) => error.loc[0] === "argument") ? problem.errors : misfits;
  const others = given.filter(
    (error) => !(isMissing && error.loc.length === 1) && !found.has(error.loc.slice(0, 2).join(".")),
  );
  return faults.length || others.length ? new Problem(422, { errors: [...faults, ...others] }) : null;
}

/**
 * Fill in the options that workers reported for the name. Keep options that the user has typed.
 * @param {FormInputs} form
 * @param {Contract | null} contract
 * @param {boolean} isCopy A copy has the options of the job that it copies.
 * @returns {boolean} Whether workers reported options.
 */
function useToldOptions(form, contract, isCopy) {
  const filled = useRef(/** @type {Record<string, string>} */ ({}));
  const told = /** @type {Record<string, unknown>} */ (isCopy ? {} : (contract?.options ?? {}));
  const names = TOLD.filter((name) => told[name] !== undefined && told[name] !== null);
  useEffect(() => {
    /** @type {Record<string, string>} */
    const changes = {};
    for (const name of isCopy ? [] : TOLD) {
      const before = filled.current[name] ?? BLANK[name] ?? "";
      if (form.values[name] === before)
        changes[name] = names.includes(name) ? asTyped(told[name]) : (BLANK[name] ?? "");
    }
    filled.current = { ...filled.current, ...changes };
    form.set(changes);
  }, [contract]);
  return names.length > 0;
}

/**
 * @param {unknown} value
 * @returns {string}
 */
function asTyped(value) {
  if (typeof value === "boolean") return value ? "yes" : "";
  return Array.isArray(value) ? value.join(", ") : String(value);
}

/** @param {Element | null} element */
const focusOn = (element) => element instanceof HTMLElement && element.focus();

/** @returns {string} */
const newKey = () => crypto.randomUUID?.() ?? String(Math.random()).slice(2);

/** @returns {string[] | null} The job names that live workers serve; null while the answer is unknown. */
function useKnownNames() {
  const { data } = useResource((signal) => get("api/workers", {}, signal), [], {
    events: ["workers"],
    leastMs: 5000,
    everyMs: 15_000,
  });
  if (!data) return null;
  const able = data.workers.filter((worker) => worker.state === "fresh");
  return [...new Set(able.flatMap((worker) => worker.names))].sort().slice(0, 500);
}

/**
 * Return the request of a form, or the problem that prevents it. The request is JSON that contains the argument as it
 * was typed, so that no number changes.
 * @param {Record<string, string>} form
 * @returns {{text?: string, body?: object, problem?: Problem}}
 */
export function bodyOf(form) {
  const typed = (form["argument"] ?? "").trim();
  // The user must type the values that a copy leaves out. Otherwise the placeholder would be sent as the value.
  if (form["left_out"] === "argument" && !typed)
    return { problem: refusal("argument", t("enqueue.argument.left_out")) };
  if (typed.includes(JSON.stringify(REDACTED)))
    return { problem: refusal("argument", t("enqueue.redacted")) };
  const argument = typed || "null";
  let parsed;
  try {
    parsed = parseExact(argument);
  } catch (error) {
    return {
      problem: refusal("argument", t("enqueue.not_json"), `: ${error instanceof Error ? error.message : ""}`),
    };
  }
  /** @type {Record<string, string>} */
  const headers = {};
  for (const line of (form["headers"] ?? "").split("\n")) {
    if (!line.trim()) continue;
    const at = line.indexOf(":");
    if (at < 1) return { problem: refusal("headers", t("enqueue.bad_header")) };
    const value = line.slice(at + 1).trim();
    if (value === REDACTED) return { problem: refusal("headers", t("enqueue.redacted")) };
    headers[line.slice(0, at).trim()] = value;
  }
  // Send a text that is not a number unchanged: the API's error names the field and the rule.
  const asNumber = (/** @type {string} */ name) => {
    const text = (form[name] ?? "").trim();
    return text !== "" && Number.isFinite(Number(text)) ? Number(text) : text || null;
  };
  const asInstant = (/** @type {string} */ name) => editedInstant(form[name] ?? "", null) || null;
  const tags = (form["tags"] ?? "")
    .split(",")
    .map((tag) => tag.trim())
    .filter(Boolean);
  const rest = {
    ...(form["priority"] !== "0" && { priority: asNumber("priority") }),
    max_retry: asNumber("max_retry"),
    timeout: asNumber("timeout"),
    ...(form["when"] === "delay" && { delay: asNumber("delay") }),
    ...(form["when"] === "run_at" && { run_at: asInstant("run_at") }),
    ...(form["expires_s"] && { expires_s: asNumber("expires_s") }),
    ...(form["expires_at"] && { expires_at: asInstant("expires_at") }),
    ...(tags.length && { tags }),
    ...(form["key"] && { key: form["key"] }),
    ...(Object.keys(headers).length && { headers }),
    ...(form["requires"] && { requires: labelsIn(form["requires"]) }),
    ...(form["keep_result"] && { keep_result: true }),
    ...(form["rerun_lost"] && { rerun_lost: true }),
  };
  const name = (form["name"] ?? "").trim();
  return {
    text: `{"name":${JSON.stringify(name)},"argument":${argument},${toJson(rest).slice(1)}`,
    body: { name, argument: parsed, ...rest },
  };
}

/**
 * @param {string} field
 * @param {string} title
 * @param {string} [more]
 */
const refusal = (field, title, more = "") =>
  new Problem(422, { title, errors: [{ loc: [field], msg: title + more }] });

/**
 * @param {JobView} job
 * @returns {Record<string, string>} The form for the same job again, due now, without its hidden parts.
 */
function formOf(job) {
  const spec = specOf(job);
  const isArgumentLeftOut = isArgumentIncomplete(job);
  const headers = Object.entries(job.headers).filter(([, value]) => value !== REDACTED);
  return {
    ...BLANK,
    name: spec.name,
    argument: isArgumentLeftOut ? "" : toJson(spec.argument, 2),
    priority: String(job.priority),
    max_retry: String(job.max_retry),
    timeout: String(job.timeout),
    tags: job.tags.join(", "),
    headers: headers.map(([key, value]) => `${key}: ${value}`).join("\n"),
    requires: labelsText(job.requires),
    keep_result: job.keep_result ? "yes" : "",
    left_out: isArgumentLeftOut ? "argument" : job.headers_redacted ? "headers" : "",
  };
}

/**
 * @param {string | undefined} text The request to preview.
 * @returns {Previewed}
 */
function usePreview(text) {
  const [state, setState] = useState(
    /** @type {Previewed} */ ({
      constraints: null,
      misfits: [],
      problem: null,
    }),
  );
  useEffect(() => {
    if (!text || text.startsWith('{"name":"",')) {
      setState({ constraints: null, misfits: [], problem: null });
      return undefined;
    }
    const aborter = new AbortController();
    const timer = setTimeout(() => {
      call("POST", "api/jobs/preview", { text, signal: aborter.signal }).then(
        (answer) => setState({ constraints: answer.constraints, misfits: answer.misfits, problem: null }),
        (error) => {
          if (error instanceof Problem) setState({ constraints: null, misfits: [], problem: error });
        },
      );
    }, PREVIEW_MS);
    return () => {
      clearTimeout(timer);
      aborter.abort();
    };
  }, [text]);
  return state;
}

/** @typedef {{constraints: Applied[] | null, misfits: Misfit[], problem: Problem | null}} Previewed */

/**
 * How much of a concurrency limit is in use now. Not shown for a constraint with a key, which has a limit for each
 * value.
 * @param {{name: string}} props
 */
function InUse({ name }) {
  const { data } = useResource(
    (signal) => get(`api/constraints/${encodeURIComponent(name)}`, {}, signal),
    [name],
    {
      events: ["jobs", "constraints"],
      leastMs: 2_000,
      everyMs: 10_000,
    },
  );
  if (!data || data.key || data.concurrency === null) return null;
  const used = (data.weight ? data.usage.running_units : data.usage.running) ?? 0;
  const text = t("enqueue.in_use", { used, most: data.concurrency });
  return html`<${Badge} kind=${used >= data.concurrency ? "warn" : "off"}>${text}<//>`;
}

/** @param {{preview: Previewed, isReady: boolean}} props */
function Preview({ preview, isReady }) {
  return html`<section class="card preview" aria-labelledby="preview" aria-live="polite">
      <h2 id="preview">${t("enqueue.preview")}</h2>
      ${
        !isReady
          ? html`<p class="muted">${t("enqueue.preview.wait")}</p>`
          : preview.problem
            ? html`<${ErrorBox} problem=${preview.problem} />`
            : preview.constraints === null
              ? html`<p class="muted">${t("loading")}</p>`
              : preview.constraints.length === 0
                ? html`<p class="muted">${t("enqueue.preview.none")}</p>`
                : html`<ul class="plain">
                    ${preview.constraints.map(
                      (one) => html`<li key=${one.name} class="preview-item">
                          <a href=${href("constraints", { name: one.name })}>
                            <strong>${visible(one.name)}</strong>
                          </a> ${one.mode === "shadow" && html`<${Badge}>${t("enqueue.shadow")}<//>`} ${
                            one.limits.paused && html`<${Badge} kind="warn">${t("enqueue.paused")}<//>`
                          } ${!one.key && html`<${InUse} name=${one.name} />`}
                          ${
                            one.key &&
                            html`<br /><span class="muted">${visible(one.key)} = <${Text} value=${one.key_value} max=${120} /></span>`
                          }
                          <br />
                          ${limitTexts({ ...one.limits, max_backlog: one.max_backlog }).map(
                            (text) => html`<span>${text}</span> `,
                          )}
                        </li>`,
                    )}
                  </ul>`
      }
    </section>`;
}
