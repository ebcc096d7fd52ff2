/**
 * The form of a target. Each name, header and host is on a line of its own. Hidden values and the secret stay until the
 * user types new ones.
 */
import { Problem, get, put } from "../core/api.js";
import { t, tOr } from "../core/i18n.js";
import { html } from "../core/lib.js";
import { visible } from "../core/text.js";
import { FormDialog } from "../ui/form_dialog.js";
import { FormCheck, FormField, FormMore, useForm } from "../ui/forms.js";

/** @typedef {import("../ui/forms.js").Values} Values */
/** @typedef {import("../ui/forms.js").FormInputs} Form */
/** @typedef {import("../../answers").Schemas["TargetDetail"]} TargetDetail */

const METHODS = ["POST", "PUT", "PATCH", "GET", "DELETE"];
const BODIES = ["argument", "envelope", "fireworq"];
/** The defaults of the API. The form leaves such fields empty. */
const DEFAULTS = { max_running: "50", ok: "2xx", final: "400, 404, 410, 422", not_ready_for_s: "259200" };
const SELDOM = ["ok", "final", "timeout", "not_ready_for_s", "max_running_per_host", "headers"];
const LABELS = /** @type {Record<string, string>} */ ({
  name: "job.name",
  names: "targets.names",
  method: "targets.method",
  body: "targets.body",
  ok: "targets.ok",
  final: "targets.final",
  allow_hosts: "targets.allow_hosts",
  description: "targets.description",
});

/** @param {string} name The name of a target. */
export const pathOfTarget = (name) => /** @type {const} */ (`api/targets/${encodeURIComponent(name)}`);

/** @param {string} name The name of a part of the form. */
const labelOf = (name) => t(LABELS[name] ?? `targets.form.${name}`);

/** @param {keyof typeof DEFAULTS} name @param {unknown} value */
const unlessUsual = (name, value) => (String(value) === DEFAULTS[name] ? "" : String(value));

/** @param {TargetDetail | null} target null: a new target. @returns {Values} */
const valuesOf = (target) => ({
  name: target?.name ?? "",
  names: (target?.names ?? []).join("\n"),
  address: target && typeof target.url !== "string" ? "argument" : "fixed",
  url: target ? (typeof target.url === "string" ? target.url : target.url.from) : "",
  method: target?.method ?? "POST",
  body: target?.body ?? "argument",
  max_running: target ? unlessUsual("max_running", target.max_running) : "",
  secret: "",
  is_unsigned: "",
  ok: target ? unlessUsual("ok", target.ok.join(", ")) : "",
  final: target ? unlessUsual("final", target.final.join(", ")) : "",
  timeout: String(target?.timeout ?? ""),
  not_ready_for_s: target ? unlessUsual("not_ready_for_s", target.not_ready_for_s) : "",
  max_running_per_host: String(target?.max_running_per_host ?? ""),
  headers: Object.entries(target?.headers ?? {})
    .map(([name, value]) => `${name}: ${value}`)
    .join("\n"),
  allow_hosts: (target?.allow_hosts ?? []).join("\n"),
  description: target?.description ?? "",
});

/** @param {string | undefined} text @returns {string[]} */
const linesIn = (text) =>
  (text ?? "")
    .split("\n")
    .map((line) => line.trim())
    .filter(Boolean);

/** @param {string} text @returns {(string | number)[]} */
const statusesIn = (text) =>
  text
    .split(/[\s,]+/)
    .filter(Boolean)
    .map((one) => (/^\d+$/.test(one) ? Number(one) : one));

/** @param {string | undefined} text */
const headersIn = (text) =>
  Object.fromEntries(
    linesIn(text).map((line) => {
      const at = line.indexOf(":");
      const msg = t("targets.headers.bad");
      if (at < 1) throw new Problem(422, { title: msg, errors: [{ loc: ["headers"], msg }] });
      return [line.slice(0, at).trim(), line.slice(at + 1).trim()];
    }),
  );

/** @param {Values} values */
function documentOf(values) {
  const text = (/** @type {string} */ name) => values[name]?.trim() ?? "";
  const figures = ["max_running", "max_running_per_host", "timeout", "not_ready_for_s"];
  return {
    names: linesIn(values["names"]),
    url: text("address") === "argument" ? { from: text("url") } : text("url"),
    method: values["method"],
    body: values["body"],
    headers: headersIn(values["headers"]),
    secret: values["is_unsigned"] ? "" : text("secret") || null,
    ...Object.fromEntries(figures.filter(text).map((name) => [name, Number(text(name))])),
    ...Object.fromEntries(["ok", "final"].filter(text).map((name) => [name, statusesIn(text(name))])),
    allow_hosts: linesIn(values["allow_hosts"]),
    description: text("description"),
  };
}

/** @param {{target: TargetDetail | null, onClose: () => void, onDone: (name: string) => unknown}} props `target` null: a new target. */
export function TargetEditor({ target, onClose, onDone }) {
  const form = useForm(target, valuesOf);
  const save = async (/** @type {Values} */ given, /** @type {TargetDetail | null} */ base) => {
    const name = target ? target.name : (given["name"]?.trim() ?? "");
    if (!name) {
      const msg = t("constraints.name.none");
      throw new Problem(422, { title: msg, errors: [{ loc: ["name"], msg }] });
    }
    await put(pathOfTarget(name), documentOf(given), {
      ...(base ? { "If-Match": `"${base.etag}"` } : { "If-None-Match": "*" }),
    });
    await onDone(name);
    return t("targets.saved", { name: visible(name) });
  };
  return html`<${FormDialog}
      isWide title=${target ? `${t("targets.edit")} · ${visible(target.name)}` : t("targets.make")}
      form=${form} onClose=${onClose} onSave=${save} isNew=${!target}
      reread=${target ? () => get(pathOfTarget(target.name)) : undefined} labelOf=${labelOf}>
      ${target?.body === "fireworq" && html`<p class="muted">${t("targets.fireworq.text")}</p>`}
      ${
        !target &&
        html`<${TextField} form=${form} name="name" hint=${t("constraints.name.rule")} maxlength="100" autocapitalize="none" />`
      }
      <${TextField}
        form=${form} name="names" as="textarea" rows="3" hint=${t("targets.names.hint")} placeholder="mail.*" />
      <${Address} form=${form} hasSecret=${target?.has_secret ?? false} />
      <${SeldomFields} form=${form} />
    <//>`;
}

/** @param {{form: Form, name: string} & Record<string, unknown>} props */
const TextField = ({ form, name, ...more }) =>
  html`<${FormField} form=${form} name=${name} label=${labelOf(name)} spellcheck=${false} ...${more} />`;

/** @param {{form: Form, name: string} & Record<string, unknown>} props */
const FigureField = ({ form, name, ...more }) =>
  html`<${TextField}
      form=${form} name=${name} type="number" min="1" step="1"
      placeholder=${/** @type {Record<string, string>} */ (DEFAULTS)[name]} ...${more} />`;

/** @param {{form: Form, name: string, options: string[][]}} props `options`: each value with its text. */
const Choice = ({ form, name, options }) =>
  html`<${FormField} form=${form} name=${name} label=${labelOf(name)} as="select">
      ${options.map(([one, text]) => html`<option key=${one} value=${one}>${text}</option>`)}
    <//>`;

/** @param {{form: Form, hasSecret: boolean}} props The fields for the address, the protocol and the secret. */
function Address({ form, hasSecret }) {
  const { values } = form;
  const hasOwn = values["address"] === "argument";
  return html`<div class="form-grid">
      <${Choice}
        form=${form} name="address"
        options=${["fixed", "argument"].map((one) => [one, t(`targets.address.${one}`)])} />
      <${TextField}
        form=${form} name="url" hint=${t(`targets.url.hint.${hasOwn ? "argument" : "fixed"}`)}
        placeholder=${hasOwn ? "argument.url" : "https://app.example/jobs/{name}"} maxlength="2048"
        autocapitalize="none" />
      <${Choice} form=${form} name="method" options=${METHODS.map((one) => [one, one])} />
      <${Choice}
        form=${form} name="body"
        options=${BODIES.map((one) => [one, tOr(`targets.body.${one}`, visible(one))])} />
      <${FigureField} form=${form} name="max_running" hint=${t("targets.max_running.hint")} />
    </div>
    ${
      (hasOwn || values["allow_hosts"]) &&
      html`<${TextField}
          form=${form} name="allow_hosts" as="textarea" rows="2" hint=${t("targets.allow_hosts.hint")}
          placeholder="*.app.example" />`
    }
    <${TextField}
      form=${form} name="secret" hint=${t(hasSecret ? "targets.secret.kept" : "targets.secret.hint")}
      maxlength="200" placeholder="whsec_…" disabled=${values["is_unsigned"] === "yes"} />
    ${hasSecret && html`<${FormCheck} form=${form} name="is_unsigned">${labelOf("is_unsigned")}<//>`}
    <${TextField} form=${form} name="description" maxlength="500" spellcheck />`;
}

/** @param {{form: Form}} props */
function SeldomFields({ form }) {
  return html`<${FormMore} form=${form} names=${SELDOM} problem=${form.problem} label=${t("targets.more")}>
      <div class="form-grid">
        <${TextField} form=${form} name="ok" hint=${t("targets.statuses.hint")} placeholder=${DEFAULTS.ok} />
        <${TextField}
          form=${form} name="final" hint=${t("targets.statuses.hint")} placeholder=${DEFAULTS.final} />
        <${FigureField} form=${form} name="timeout" hint=${t("targets.timeout.hint")} min="0.001" step="any" />
        <${FigureField} form=${form} name="not_ready_for_s" hint=${t("targets.not_ready_for_s.hint")} />
        <${FigureField} form=${form} name="max_running_per_host" />
      </div>
      <${TextField}
        form=${form} name="headers" as="textarea" rows="3" hint=${t("targets.headers.hint")}
        placeholder="Authorization: Bearer …" />
    <//>`;
}
