/**
 * Every setting with its effect. Settings that can change while masters run are changed here; secrets are never shown.
 */
import { html, useState } from "../../core/lib.js";
import { Problem, get, may, patch, toJson } from "../../core/api.js";
import { number, t, tOr } from "../../core/i18n.js";
import { useResource } from "../../core/resource.js";
import { DEFAULT, namespace, ofInstallation } from "../../core/namespaces.js";
import { visible } from "../../core/text.js";
import { Button, Empty, ErrorBox, Loading } from "../../ui/controls.js";
import { toast } from "../../ui/dialogs.js";
import { Badge, Marked, bytesText, durationText } from "../../ui/formats.js";
import { FilterInput } from "../../ui/filters.js";
import { FormDialog } from "../../ui/form_dialog.js";
import { Field, FormField, useForm } from "../../ui/forms.js";
import { Table } from "../../ui/tables.js";

/** @typedef {import("../../../answers").Schemas["SettingView"]} SettingView */

/** @typedef {import("../../core/lib.js").FieldEvent} FieldEvent */

const SOURCES = /** @type {const} */ ({
  default: "off",
  configured: "info",
  runtime: "warn",
  installation: "info",
  namespace: "warn",
});
// Whether this is a namespace with its own settings. `default` has none: those of the installation apply.
const isOfNamespace = namespace !== "" && namespace !== DEFAULT;

/**
 * @param {SettingView} setting
 * @returns {keyof typeof SOURCES} The source of the value. In a namespace, it says only whether the value is the
 *   namespace's own.
 */
const sourceOf = ({ source }) =>
  isOfNamespace && (source === "configured" || source === "runtime") ? "installation" : source;

/** @param {{query: Record<string, string>, go: typeof import("../../core/router.js").go, session: import("../../core/api.js").Session}} props */
export function Page({ query, go, session }) {
  const { data, problem, reload } = useResource((signal) => get("api/settings", {}, signal), [], {
    events: ["settings"],
    leastMs: 1000,
    everyMs: 15_000,
  });
  const [editing, setEditing] = useState(/** @type {SettingView | null} */ (null));
  const q = (query["q"] ?? "").toLowerCase();
  const isOnlyRuntime = query["runtime"] === "1";
  const all = data?.settings ?? [];
  const shown = all.filter(
    (one) =>
      (!q || `${one.key} ${labelOf(one)} ${effectOf(one)}`.toLowerCase().includes(q)) &&
      (!isOnlyRuntime || one.change_scope !== null),
  );
  const groups = [...new Set(shown.map((one) => one.group))];
  const filter = (/** @type {Record<string, string>} */ more) =>
    go("settings", { ...query, ...more }, { replace: true });
  return html`<div class="page-head"><h1>${t("nav.settings")}</h1></div>
    ${
      isOfNamespace &&
      html`<p class="muted">
          ${t("settings.of_namespace", { name: namespace })} <a href=${ofInstallation("#/settings")}>${t("settings.of_installation")}</a>
        </p>`
    }
    <form class="filters" role="search" onSubmit=${(/** @type {Event} */ e) => e.preventDefault()}>
      <${FilterInput}
        label=${t("settings.find")} maxlength="100" value=${query["q"] ?? ""}
        onChange=${(/** @type {string} */ q) => filter({ q })} />
      <label class="check">
        <input
          type="checkbox" checked=${isOnlyRuntime}
          onChange=${(/** @type {FieldEvent} */ e) => filter({ runtime: e.target.checked ? "1" : "" })} /> ${t(
            isOfNamespace ? "settings.only_own" : "settings.only_runtime",
          )}
      </label>
    </form>
    <${ErrorBox} problem=${problem} onRetry=${reload} />
    ${
      data === null
        ? !problem && html`<${Loading} />`
        : shown.length === 0
          ? html`<${Empty} title=${t("settings.none_such")} />`
          : groups.map(
              (group) =>
                html`<section key=${group} class="after">
                    <h2>${tOr(`settings.group.${group}`, visible(group))}</h2>
                    <${Table}
                      caption=${tOr(`settings.group.${group}`, visible(group))} rowKey=${keyOf}
                      rowClass=${() => "setting"} rows=${shown.filter((one) => one.group === group)}
                      columns=${columns(session, setEditing)} />
                  </section>`,
            )
    }
    ${
      editing &&
      html`<${Edit} key=${editing.key} setting=${editing} onClose=${() => setEditing(null)} onDone=${reload} />`
    }`;
}

// The master sends labels and descriptions in English; use our translation, if there is one.
/** @param {SettingView} setting @returns {string} */
const labelOf = (setting) => tOr(`settings.label.${setting.key}`, visible(setting.label));
/** @param {SettingView} setting @returns {string} */
const effectOf = (setting) => tOr(`settings.effect.${setting.key}`, setting.effect);

/** @param {SettingView} setting */
const keyOf = (setting) => setting.key;

/**
 * @param {import("../../core/api.js").Session} session
 * @param {(setting: SettingView) => void} onEdit
 * @returns {import("../../ui/tables.js").Column<SettingView>[]}
 */
function columns(session, onEdit) {
  return [
    {
      key: "setting",
      label: t("settings.setting"),
      render: (one) =>
        html`<strong>${labelOf(one)}</strong> <code class="small muted">${visible(one.key)}</code>
          <p class="muted small"><${Marked} text=${effectOf(one)} /></p>`,
    },
    {
      key: "value",
      label: t("settings.value"),
      render: (one) =>
        html`<span class="setting-value"><${Setting} setting=${one} /></span><br />
          <${Badge} kind=${SOURCES[sourceOf(one)] ?? "off"}>
            ${tOr(`settings.source.${sourceOf(one)}`, visible(sourceOf(one)))}
          <//>`,
    },
    {
      key: "default",
      label: t("settings.default.column"),
      priority: 2,
      render: (one) =>
        html`<span class="muted num">${one.is_secret ? "–" : valueText(one, one.default)}</span>
          ${rangeText(one) && html`<br /><span class="muted small num">${rangeText(one)}</span>`}`,
    },
    {
      key: "act",
      label: t("job.actions"),
      align: "end",
      render: (one) => {
        if (!one.is_runtime) return html`<span class="muted small">${t("settings.at_start")}</span>`;
        if (one.change_scope === null) return html`<span class="muted small">${t("settings.shared")}</span>`;
        if (may(session, one.change_scope))
          return html`<${Button}
              opensDialog class="small" aria-label=${t("settings.change_one", { name: labelOf(one) })}
              onClick=${() => onEdit(one)}>
              ${t("settings.change")}
            <//>`;
        return one.change_scope === "admin"
          ? html`<span class="muted small">${t("settings.admin_only")}</span>`
          : null;
      },
    },
  ];
}

/**
 * @param {SettingView} setting
 * @param {unknown} value
 * @returns {string}
 */
function valueText(setting, value) {
  if (value === null || value === undefined || (Array.isArray(value) && value.length === 0)) return t("none");
  if (Array.isArray(value)) return visible(value.join(", "));
  if (typeof value === "boolean") return t(value ? "yes" : "no");
  if (typeof value === "number" || typeof value === "bigint") {
    const ms = setting.unit === "ms" ? Number(value) : setting.unit === "s" ? Number(value) * 1000 : null;
    if (ms !== null) return durationText(ms);
    if (setting.unit === "bytes") return bytesText(Number(value));
    return number(value, { maximumFractionDigits: 6 });
  }
  return visible(String(value));
}

/** @param {SettingView} setting */
function rangeText(setting) {
  const { minimum, maximum } = setting;
  if (minimum === null && maximum === null) return "";
  const text = (/** @type {unknown} */ value) => valueText(setting, value);
  if (maximum === null)
    return Number(minimum) === 0 ? "" : t("settings.range.least", { least: text(minimum) });
  const most = text(maximum);
  if (minimum === null) return t("settings.range.most", { most });
  // Write "0" without a unit.
  const least = Number(minimum) === 0 ? number(0) : text(minimum);
  return t("settings.range.between", { least, most });
}

/** @param {{setting: SettingView}} props */
function Setting({ setting }) {
  if (setting.is_secret || setting.is_hidden) return html`<span class="muted">${t("settings.secret")}</span>`;
  return html`<strong class="num">${valueText(setting, setting.value)}</strong>`;
}

/** @param {SettingView} setting @returns {import("../../ui/forms.js").Values} */
const valuesOf = ({ type, value }) => ({
  value:
    type === "boolean"
      ? value
        ? "yes"
        : ""
      : type === "list"
        ? /** @type {string[]} */ (value ?? []).join("\n")
        : String(value ?? ""),
});

/** @param {SettingView} setting @param {string} text @returns {unknown} The value for the API; null: the configured value. */
function sentValue(setting, text) {
  if (setting.type === "boolean") return text === "yes";
  if (setting.type === "integer" || setting.type === "number") return text === "" ? null : Number(text);
  return setting.type === "list" ? text.split(/\s+/).filter(Boolean) : text;
}

/** @param {{setting: SettingView, onClose: () => void, onDone: () => Promise<void>}} props */
function Edit({ setting, onClose, onDone }) {
  const form = useForm(setting, valuesOf);
  const reread = async () =>
    (await get("api/settings")).settings.find((one) => one.key === setting.key) ?? setting;
  const send = async (/** @type {unknown} */ value) => {
    await patch("api/settings", { [setting.key]: value });
    await onDone();
    return t("settings.done", { name: labelOf(setting) });
  };
  const save = async (
    /** @type {import("../../ui/forms.js").Values} */ values,
    /** @type {SettingView} */ base,
  ) => {
    // Compare the value of the setting: the version does not help, because all settings share it.
    if (toJson((await reread()).value) !== toJson(base.value))
      throw new Problem(412, { title: t("form.conflict") });
    return send(sentValue(setting, values["value"] ?? ""));
  };
  const reset = async () => {
    const done = await form.run(() => send(null));
    if (typeof done !== "string") return;
    toast(done);
    onClose();
  };
  const isChanged = setting.source === (isOfNamespace ? "namespace" : "runtime");
  const resetText = isOfNamespace
    ? t("settings.reset_to", { value: valueText(setting, setting.reset_value) })
    : t("settings.reset");
  const unit = setting.unit ? ` (${tOr(`unit.${setting.unit}`, visible(setting.unit))})` : "";
  const common = {
    form,
    name: "value",
    path: setting.key,
    label: `${visible(setting.key)}${unit}`,
    hint: setting.type === "list" ? t("settings.list.hint") : rangeText(setting),
  };
  const control = () => {
    switch (setting.type) {
      case "boolean":
        return html`<${Field} label=${common.label} problem=${form.problem} path=${setting.key}>
            ${(/** @type {Record<string, unknown>} */ a) => html`<input ...${a} ...${form.check("value")} />`}
          <//>`;
      case "choice":
        return html`<${FormField} ...${common} as="select">
            ${(setting.choices ?? []).map(
              (/** @type {string} */ choice) =>
                html`<option key=${choice} value=${choice}>${visible(choice)}</option>`,
            )}
          <//>`;
      case "list":
        return html`<${FormField} ...${common} as="textarea" class="short" spellcheck=${false} />`;
      case "text":
        return html`<${FormField} ...${common} type="text" maxlength="2000" spellcheck=${false} />`;
      default:
        return html`<${FormField} ...${common} type="number" step=${setting.type === "integer" ? "1" : "any"} />`;
    }
  };
  return html`<${FormDialog} title=${labelOf(setting)} form=${form} onClose=${onClose} onSave=${save} reread=${reread} labelOf=${() => labelOf(setting)}
      more=${isChanged && html`<${Button} disabled=${form.isBusy} onClick=${reset}>${resetText}<//>`}>
    <p class="muted"><${Marked} text=${effectOf(setting)} /></p>${control()}<//>`;
}
