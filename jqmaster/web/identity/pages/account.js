/** The account of the logged-in user: the password, and all logins. */
import { html } from "../../core/lib.js";
import { del, get, post } from "../../core/api.js";
import { t } from "../../core/i18n.js";
import { useResource } from "../../core/resource.js";
import { Button, Empty, ErrorBox, Loading } from "../../ui/controls.js";
import { attempt, toast } from "../../ui/dialogs.js";
import { Badge, Text, Time } from "../../ui/formats.js";
import { FormField, useForm } from "../../ui/forms.js";
import { Table } from "../../ui/tables.js";
import { whoText } from "../value_words.js";

/** @typedef {import("../../../answers").Schemas["OwnSessionView"]} OwnSession */

/** @param {{session: import("../../core/api.js").Session}} props */
export function Page({ session }) {
  if (session.method !== "session")
    return html`<h1>${t("nav.account")}</h1><${Empty} title=${t("account.no_login")} />`;
  return html`<div class="page-head"><h1>${t("nav.account")}</h1></div><p class="muted"><${Text} value=${whoText(session.who ?? "")} max=${80} /></p>
    ${(session.who ?? "").startsWith("user:") && html`<${Password} />`}<${Logins} />`;
}

function Password() {
  const form = useForm(null, () => ({ old_password: "", new_password: "" }));
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    await form.run(async (values) => {
      await post("api/session/password", values);
      form.reopen(null);
      toast(t("account.password.done"));
    });
  };
  return html`<section aria-labelledby="password">
      <h2 id="password">${t("account.password")}</h2>
      <form onSubmit=${submit} class="stack narrow-form" novalidate>
        <${FormField}
          form=${form} name="old_password" label=${t("account.password.old")} type="password" maxlength="200"
          autocomplete="current-password" />
        <${FormField}
          form=${form} name="new_password" label=${t("account.password.new")}
          hint=${t("access.password.hint")} type="password" maxlength="200" autocomplete="new-password" />
        <p class="muted">${t("account.password.text")}</p><${ErrorBox} problem=${form.problem} />
        <p><button class="button primary" disabled=${form.isBusy}>${t("account.password.change")}</button></p>
      </form>
    </section>`;
}

function Logins() {
  const { data, problem, reload } = useResource((signal) => get("api/sessions", {}, signal), [], {
    everyMs: 30_000,
  });
  const logins = data?.sessions ?? [];
  const end = (/** @type {string} */ path) =>
    attempt(async () => {
      await del(path);
      await reload();
    }, t("account.login.ended"));
  return html`<section class="after">
      <div class="page-head">
        <h2 id="logins">${t("account.logins")}</h2>
        ${
          logins.length > 1 &&
          html`<${Button} kind="danger" onClick=${() => end("api/sessions")}>${t("account.login.end_others")}<//>`
        }
      </div>
      <${ErrorBox} problem=${problem} onRetry=${reload} />
      ${
        data === null
          ? !problem && html`<${Loading} />`
          : html`<${Table}
              caption=${t("account.logins")} rows=${logins}
              rowKey=${(/** @type {OwnSession} */ login) => login.id} columns=${[
                {
                  key: "address",
                  label: t("account.login.address"),
                  render: (/** @type {OwnSession} */ login) =>
                    html`<${Text} value=${login.address || "–"} max=${60} /> ${
                      login.is_current && html`<${Badge} kind="info">${t("account.login.current")}<//>`
                    }`,
                },
                {
                  key: "opened",
                  label: t("account.login.opened"),
                  align: "end",
                  priority: 2,
                  render: (/** @type {OwnSession} */ login) =>
                    login.opened_at ? html`<${Time} at=${login.opened_at} />` : "–",
                },
                {
                  key: "used",
                  label: t("access.used"),
                  align: "end",
                  render: (/** @type {OwnSession} */ login) => html`<${Time} at=${login.last_used_at} />`,
                },
                {
                  key: "act",
                  label: t("job.actions"),
                  align: "end",
                  render: (/** @type {OwnSession} */ login) =>
                    !login.is_current &&
                    html`<${Button}
                        class="small" kind="danger"
                        onClick=${() => end(`api/sessions/${encodeURIComponent(login.id)}`)}>
                        ${t("account.login.end")}
                      <//>`,
                },
              ]} />`
      }
    </section>`;
}
