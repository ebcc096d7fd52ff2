/** Every setting with what it does. Those that can change while masters run are changed here; secrets are never shown. */
import { html, useEffect, useRef, useState } from "../lib.js";
import { Problem, get, may, patch } from "../api.js";
import { number, t, tOr } from "../i18n.js";
import { useResource } from "../live.js";
import { visible } from "../text.js";
import { Button, Empty, ErrorBox, Loading } from "../ui/controls.js";
import { toast } from "../ui/dialogs.js";
import { Badge, Text, bytesText, durationText } from "../ui/formats.js";
import { Field } from "../ui/forms.js";

const SOURCES = /** @type {const} */ ({ default: "off", configured: "info", runtime: "warn" });

/** @param {{query: Record<string, string>, go: typeof import("../router.js").go, session: import("../api.js").Session}} props */
export function Page({ query, go, session }) {
  const { data, problem, reload } = useResource((signal) => get("api/settings", {}, signal), [], {
    events: ["settings"],
    leastMs: 1000,
    everyMs: 15_000,
  });
  const [editing, setEditing] = useState(/** @type {string | null} */ (null));
  const q = (query["q"] ?? "").toLowerCase();
  const isOnlyRuntime = query["runtime"] === "1";
  const all = /** @type {any[]} */ (data?.settings ?? []);
  const shown = all.filter(
    (one) =>
      (!q || `${one.key} ${one.label} ${one.effect}`.toLowerCase().includes(q)) &&
      (!isOnlyRuntime || one.is_runtime),
  );
  const groups = [...new Set(shown.map((one) => one.group))];
  const filter = (/** @type {Record<string, string>} */ more) =>
    go("settings", { ...query, ...more }, { replace: true });
  return html`<div class="page-head"><h1>${t("nav.settings")}</h1></div>
    <form class="filters" role="search" onSubmit=${(/** @type {Event} */ e) => e.preventDefault()}>
      <${Field} label=${t("settings.find")}>${(/** @type {any} */ a) => html`<input ...${a} type="search" maxlength="100" value=${query["q"] ?? ""} onInput=${(/** @type {any} */ e) => filter({ q: e.target.value })} autocomplete="off" />`}<//>
      <label class="check"><input type="checkbox" checked=${isOnlyRuntime} onChange=${(/** @type {any} */ e) => filter({ runtime: e.target.checked ? "1" : "" })} /> ${t("settings.only_runtime")}</label></form>
    <${ErrorBox} problem=${problem} onRetry=${reload} />
    ${
      data === null
        ? !problem && html`<${Loading} />`
        : shown.length === 0
          ? html`<${Empty} title=${t("settings.none_such")} />`
          : groups.map(
              (group) =>
                html`<section key=${group} class="after"><h2>${tOr(`settings.group.${group}`, visible(group))}</h2><ul class="settings">${shown
                  .filter((one) => one.group === group)
                  .map(
                    (one) => html`<li key=${one.key} class="card setting">
        ${
          editing === one.key
            ? html`<${Edit} setting=${one} onClose=${() => setEditing(null)} onDone=${reload} />`
            : html`<div class="setting-head"><h3>${visible(one.label)}</h3><span class="setting-value"><${Setting} setting=${one} /></span></div>
            <p class="muted"><${Text} value=${one.effect} max=${600} /></p>
            <p class="row small"><code>${visible(one.key)}</code> <${Badge} kind=${SOURCES[/** @type {keyof typeof SOURCES} */ (one.source)] ?? "off"}>${tOr(`settings.source.${one.source}`, visible(one.source))}<//>
              <span class="muted">${t("settings.default")} ${one.is_secret ? "–" : valueText(one, one.default)}${rangeText(one) && ` · ${rangeText(one)}`}${!one.is_runtime ? ` · ${t("settings.at_start")}` : ""}</span>
              ${one.change_scope === "admin" && !may(session, "admin") && html`<span class="muted">${t("settings.admin_only")}</span>`}
              ${one.change_scope && may(session, one.change_scope) && html`<${Button} class="small" aria-label=${t("settings.change_one", { name: visible(one.label) })} onClick=${() => setEditing(one.key)}>${t("settings.change")}<//>`}</p>`
        }</li>`,
                  )}</ul></section>`,
            )
    }`;
}

/**
 * @param {any} setting
 * @param {any} value
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

/** @param {any} setting */
function rangeText(setting) {
  const { minimum, maximum } = setting;
  if (minimum === null && maximum === null) return "";
  const text = (/** @type {any} */ value) => valueText(setting, value);
  if (maximum === null) return `≥ ${text(minimum)}`;
  return minimum === null ? `≤ ${text(maximum)}` : `${text(minimum)} – ${text(maximum)}`;
}

/** @param {{setting: any}} props */
function Setting({ setting }) {
  if (setting.is_secret || setting.is_hidden) return html`<span class="muted">${t("settings.secret")}</span>`;
  return html`<strong class="num">${valueText(setting, setting.value)}</strong>`;
}

/** @param {{setting: any, onClose: () => void, onDone: () => Promise<void>}} props */
function Edit({ setting, onClose, onDone }) {
  const [problem, setProblem] = useState(/** @type {Problem | null} */ (null));
  const [isBusy, setBusy] = useState(false);
  const form = useRef(/** @type {HTMLFormElement | null} */ (null));
  useEffect(() => {
    /** @type {HTMLElement | null | undefined} */ (
      form.current?.querySelector("input, select, textarea")
    )?.focus();
  }, []);
  const send = async (/** @type {any} */ value) => {
    setBusy(true);
    setProblem(null);
    try {
      await patch("api/settings", { [setting.key]: value });
      toast(t("settings.done", { name: visible(setting.label) }));
      await onDone();
      onClose();
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      setProblem(error);
      setBusy(false);
    }
  };
  const save = (/** @type {Event} */ event) => {
    event.preventDefault();
    const field = /** @type {any} */ (form.current?.elements.namedItem("value"));
    const text = String(field.value ?? "");
    if (setting.type === "boolean") return send(field.checked);
    if (setting.type === "integer" || setting.type === "number")
      return send(text === "" ? null : Number(text));
    if (setting.type === "list") return send(text.split(/\s+/).filter(Boolean));
    return send(text);
  };
  const unit = setting.unit ? ` (${tOr(`unit.${setting.unit}`, visible(setting.unit))})` : "";
  const input = (/** @type {any} */ a) => {
    if (setting.type === "boolean")
      return html`<input ...${a} name="value" type="checkbox" checked=${setting.value} />`;
    if (setting.type === "choice")
      return html`<select ...${a} name="value">${setting.choices.map((/** @type {string} */ choice) => html`<option value=${choice} selected=${choice === setting.value}>${visible(choice)}</option>`)}</select>`;
    if (setting.type === "list")
      return html`<textarea ...${a} class="short" name="value">${(setting.value ?? []).join("\n")}</textarea>`;
    if (setting.type === "text")
      return html`<input ...${a} name="value" type="text" value=${setting.value ?? ""} maxlength="2000" />`;
    return html`<input ...${a} name="value" type="number" step=${setting.type === "integer" ? "1" : "any"} value=${String(setting.value ?? "")} />`;
  };
  return html`<form ref=${form} onSubmit=${save} onKeyDown=${(/** @type {KeyboardEvent} */ e) => {
    if (e.key === "Escape") onClose();
  }} class="stack">
    <h3>${visible(setting.label)}</h3><p class="muted"><${Text} value=${setting.effect} max=${600} /></p>
    <${Field} label=${`${visible(setting.key)}${unit}`} problem=${problem} path=${setting.key} hint=${setting.type === "list" ? t("settings.list.hint") : rangeText(setting)}>${input}<//>
    ${problem && html`<${ErrorBox} problem=${problem} />`}
    <div class="row"><button class="button primary" disabled=${isBusy}>${t("save")}</button><${Button} onClick=${onClose}>${t("cancel")}<//>
      ${setting.source === "runtime" && html`<${Button} disabled=${isBusy} onClick=${() => send(null)}>${t("settings.reset")}<//>`}</div></form>`;
}
