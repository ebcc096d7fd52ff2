/** Who may come in: tokens for programs, users for people. */
import { html, useState } from "../lib.js";
import { Problem, call, del, get, may, patch, post } from "../api.js";
import { t, tOr } from "../i18n.js";
import { useResource } from "../live.js";
import { visible } from "../text.js";
import { Button, Code, Empty, ErrorBox, Loading } from "../ui/controls.js";
import { Dialog, attempt, toast } from "../ui/dialogs.js";
import { Badge, Text, Time } from "../ui/formats.js";
import { Field } from "../ui/forms.js";
import { Table } from "../ui/tables.js";

const SCOPES = ["push", "work", "read", "operate", "admin"];
const ROLES = ["viewer", "operator", "admin"];
const DAY_S = 86_400;
const LIVES = [
  ["", null],
  ["30", 30 * DAY_S],
  ["90", 90 * DAY_S],
  ["365", 365 * DAY_S],
];

/** @typedef {{what: string, of?: any}} Asked */

/** @param {{session: import("../api.js").Session}} props */
export function Page({ session }) {
  if (!may(session, "admin"))
    return html`<h1>${t("nav.access")}</h1><${Empty} title=${t("access.forbidden")} />`;
  return html`<div class="page-head"><h1>${t("nav.access")}</h1></div><${Tokens} /><${Users} me=${session.method === "session" ? session.who : null} />`;
}

function Tokens() {
  const { data, problem, reload } = useResource((signal) => get("api/tokens", {}, signal), [], {
    everyMs: 30_000,
  });
  const [asked, setAsked] = useState(/** @type {Asked | null} */ (null));
  const tokens = /** @type {any[]} */ (data?.tokens ?? []);
  const close = () => setAsked(null);
  return html`<section aria-labelledby="tokens"><div class="page-head"><h2 id="tokens">${t("access.tokens")}</h2><${Button} kind="primary" onClick=${() => setAsked({ what: "create" })}>${t("access.token.new")}<//></div>
    <p class="muted">${t("access.tokens.text")}</p><${ErrorBox} problem=${problem} onRetry=${reload} />
    ${
      data === null
        ? !problem && html`<${Loading} />`
        : html`<${Table} caption=${t("access.tokens")} rows=${tokens} rowKey=${(/** @type {any} */ token) => token.id}
      empty=${html`<${Empty} title=${t("access.tokens.none")} curl="jqmaster tokens create operations --scope admin" />`} columns=${[
        {
          key: "label",
          label: t("access.label"),
          render: (/** @type {any} */ token) =>
            html`<${Text} value=${token.label} max=${60} />${token.names?.length > 0 && html` <span class="muted small"><${Text} value=${token.names.join(", ")} max=${80} /></span>`}`,
        },
        {
          key: "scopes",
          label: t("access.scopes"),
          render: (/** @type {any} */ token) =>
            token.scopes.map(
              (/** @type {string} */ scope) =>
                html`<${Badge} kind=${scope === "admin" ? "warn" : "info"}>${tOr(`access.scope.${scope}`, visible(scope))}<//> `,
            ),
        },
        {
          key: "used",
          label: t("access.used"),
          align: "end",
          render: (/** @type {any} */ token) =>
            token.last_used_at ? html`<${Time} at=${token.last_used_at} />` : t("access.never"),
        },
        {
          key: "expires",
          label: t("access.expires"),
          align: "end",
          priority: 2,
          render: (/** @type {any} */ token) =>
            token.expires_at ? html`<${Time} at=${token.expires_at} />` : t("access.never"),
        },
        {
          key: "created",
          label: t("job.created"),
          align: "end",
          priority: 3,
          render: (/** @type {any} */ token) =>
            html`<${Time} at=${token.created_at} /> <span class="muted"><${Text} value=${token.created_by} max=${40} /></span>`,
        },
        {
          key: "act",
          label: t("job.actions"),
          align: "end",
          render: (/** @type {any} */ token) =>
            html`<span class="row end-row"><${Button} class="small" onClick=${() => setAsked({ what: "rotate", of: token })}>${t("access.rotate")}…<//><${Button} class="small" kind="danger" onClick=${() => setAsked({ what: "revoke", of: token })}>${t("access.revoke")}…<//></span>`,
        },
      ]} />`
    }
    ${asked?.what === "create" && html`<${NewToken} onClose=${close} onDone=${reload} />`}
    ${asked?.what === "rotate" && html`<${Rotate} token=${asked.of} onClose=${close} onDone=${reload} />`}
    ${
      asked?.what === "revoke" &&
      html`<${Sure} title=${t("access.revoke.title")} verb=${t("access.revoke")} onClose=${close} onConfirm=${async () => {
        await del(`api/tokens/${encodeURIComponent(asked.of.id)}`);
        toast(t("access.revoked"));
        await reload();
      }}><p><strong><${Text} value=${asked.of.label} /></strong></p><p>${t("access.revoke.text")}</p><//>`
    }</section>`;
}

/** @param {{token: any, text: string, onClose: () => void}} props The only time that it is shown. */
function Secret({ token, text, onClose }) {
  return html`<${Dialog} title=${text} onClose=${onClose}><p>${t("access.once")}</p><${Code} text=${token.token} label=${t("login.token")} /><footer><${Button} kind="primary" onClick=${onClose}>${t("close")}<//></footer><//>`;
}

/** @param {{onClose: () => void, onDone: () => Promise<void>}} props */
function NewToken({ onClose, onDone }) {
  const [made, setMade] = useState(/** @type {any} */ (null));
  const [problem, setProblem] = useState(/** @type {Problem | null} */ (null));
  const submit = async (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    const data = new FormData(/** @type {HTMLFormElement} */ (event.target));
    const life = LIVES.find(([key]) => key === data.get("life"))?.[1];
    const names = String(data.get("names") ?? "")
      .split(/\s+/)
      .filter(Boolean);
    try {
      setMade(
        await post("api/tokens", {
          label: data.get("label"),
          scopes: data.getAll("scope"),
          ...(life && { ttl_s: life }),
          ...(names.length > 0 && { names }),
        }),
      );
      await onDone();
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      setProblem(error);
    }
  };
  if (made) return html`<${Secret} token=${made} text=${t("access.token.made")} onClose=${onClose} />`;
  return html`<${Dialog} title=${t("access.token.new")} onClose=${onClose}><form onSubmit=${submit} class="stack">
    <${Field} label=${t("access.label")} hint=${t("access.label.hint")} problem=${problem} path="label">${(/** @type {any} */ a) => html`<input ...${a} name="label" required maxlength="100" autofocus autocomplete="off" />`}<//>
    <fieldset class="plain-set"><legend>${t("access.scopes")}</legend>${SCOPES.map((scope) => html`<label class="check" key=${scope}><input type="checkbox" name="scope" value=${scope} checked=${scope === "push"} /> <span>${t(`access.scope.${scope}`)} <span class="muted">${t(`access.scope.${scope}.text`)}</span></span></label>`)}</fieldset>
    <${Field} label=${t("access.names")} hint=${t("access.names.hint")} problem=${problem} path="names">${(/** @type {any} */ a) => html`<input ...${a} name="names" maxlength="1000" autocomplete="off" spellcheck=${false} />`}<//>
    <${Field} label=${t("access.life")} problem=${problem} path="ttl_s">${(/** @type {any} */ a) => html`<select ...${a} name="life">${LIVES.map(([key]) => html`<option value=${key}>${key ? t("access.days", { count: Number(key) }) : t("access.no_end")}</option>`)}</select>`}<//>
    <${ErrorBox} problem=${problem} /><footer><${Button} onClick=${onClose}>${t("cancel")}<//><button class="button primary">${t("access.create")}</button></footer></form><//>`;
}

/** @param {{token: any, onClose: () => void, onDone: () => Promise<void>}} props */
function Rotate({ token, onClose, onDone }) {
  const [made, setMade] = useState(/** @type {any} */ (null));
  const [problem, setProblem] = useState(/** @type {Problem | null} */ (null));
  const submit = async (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    const hours = Number(new FormData(/** @type {HTMLFormElement} */ (event.target)).get("hours"));
    try {
      setMade(await post(`api/tokens/${encodeURIComponent(token.id)}/rotate`, { overlap_s: hours * 3600 }));
      await onDone();
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      setProblem(error);
    }
  };
  if (made) return html`<${Secret} token=${made} text=${t("access.token.made")} onClose=${onClose} />`;
  return html`<${Dialog} title=${t("access.rotate.title")} onClose=${onClose}><form onSubmit=${submit} class="stack"><p><strong><${Text} value=${token.label} /></strong></p><p>${t("access.rotate.text")}</p>
    <${Field} label=${t("access.overlap")} problem=${problem} path="overlap_s">${(/** @type {any} */ a) => html`<input ...${a} name="hours" type="number" min="0" step="any" required value="24" />`}<//>
    <${ErrorBox} problem=${problem} /><footer><${Button} onClick=${onClose}>${t("cancel")}<//><button class="button primary">${t("access.rotate")}</button></footer></form><//>`;
}

/** @param {{me: string | null}} props */
function Users({ me }) {
  const { data, problem, reload } = useResource((signal) => get("api/users", {}, signal), [], {
    everyMs: 30_000,
  });
  const [asked, setAsked] = useState(/** @type {Asked | null} */ (null));
  const users = /** @type {any[]} */ (data?.users ?? []);
  const close = () => setAsked(null);
  const path = (/** @type {any} */ user) => `api/users/${encodeURIComponent(user.name)}`;
  const change = async (/** @type {any} */ user, /** @type {any} */ fields, /** @type {string} */ done) => {
    await attempt(async () => {
      await patch(path(user), fields);
      await reload();
    }, done);
  };
  return html`<section class="after" aria-labelledby="users"><div class="page-head"><h2 id="users">${t("access.users")}</h2><${Button} kind="primary" onClick=${() => setAsked({ what: "add" })}>${t("access.user.new")}<//></div>
    <p class="muted">${t("access.users.text")}</p><${ErrorBox} problem=${problem} onRetry=${reload} />
    ${
      data === null
        ? !problem && html`<${Loading} />`
        : html`<${Table} caption=${t("access.users")} rows=${users} rowKey=${(/** @type {any} */ user) => user.name}
      empty=${html`<${Empty} title=${t("access.users.none")}>${t("access.users.none.text")}<//>`} columns=${[
        {
          key: "name",
          label: t("login.user"),
          render: (/** @type {any} */ user) =>
            html`<${Text} value=${user.name} max=${64} />${user.name === me && html` <span class="muted">${t("access.you")}</span>`} ${user.is_disabled && html`<${Badge} kind="off">${t("access.disabled")}<//>`}`,
        },
        {
          key: "role",
          label: t("access.role"),
          render: (/** @type {any} */ user) =>
            html`<select aria-label=${t("access.role_of", { name: user.name })} value=${user.role} onChange=${(/** @type {any} */ e) => change(user, { role: e.target.value }, t("access.role.done"))}>${ROLES.map((role) => html`<option key=${role} value=${role} selected=${role === user.role}>${t(`access.role.${role}`)}</option>`)}</select>`,
        },
        {
          key: "login",
          label: t("access.last_login"),
          align: "end",
          priority: 2,
          render: (/** @type {any} */ user) =>
            user.last_login_at ? html`<${Time} at=${user.last_login_at} />` : t("access.never"),
        },
        {
          key: "created",
          label: t("job.created"),
          align: "end",
          priority: 3,
          render: (/** @type {any} */ user) => html`<${Time} at=${user.created_at} />`,
        },
        {
          key: "act",
          label: t("job.actions"),
          align: "end",
          render: (
            /** @type {any} */ user,
          ) => html`<span class="row end-row"><${Button} class="small" onClick=${() => setAsked({ what: "password", of: user })}>${t("login.password")}…<//>
          <${Button} class="small" onClick=${() => change(user, { is_disabled: !user.is_disabled }, t(user.is_disabled ? "access.enabled.done" : "access.disabled.done"))}>${t(user.is_disabled ? "access.enable" : "access.disable")}<//>
          <${Button} class="small" kind="danger" onClick=${() => setAsked({ what: "remove", of: user })}>${t("access.remove")}…<//></span>`,
        },
      ]} />`
    }
    ${
      asked?.what === "add" &&
      html`<${UserForm} onClose=${close} onSend=${async (/** @type {any} */ fields) => {
        await post("api/users", fields);
        toast(t("access.user.made"));
        await reload();
      }} isNew />`
    }
    ${
      asked?.what === "password" &&
      html`<${UserForm} user=${asked.of} onClose=${close} onSend=${async (/** @type {any} */ fields) => {
        await patch(path(asked.of), { password: fields.password });
        toast(t("access.password.done"));
      }} />`
    }
    ${
      asked?.what === "remove" &&
      html`<${Sure} title=${t("access.remove.title")} verb=${t("access.remove")} onClose=${close} onConfirm=${async () => {
        await call("DELETE", path(asked.of));
        toast(t("access.removed"));
        await reload();
      }}><p><strong><${Text} value=${asked.of.name} /></strong></p><p>${t("access.remove.text")}</p><//>`
    }</section>`;
}

/** @param {{user?: any, isNew?: boolean, onSend: (fields: any) => Promise<void>, onClose: () => void}} props */
function UserForm({ user, isNew = false, onSend, onClose }) {
  const [problem, setProblem] = useState(/** @type {Problem | null} */ (null));
  const submit = async (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    try {
      await onSend(Object.fromEntries(new FormData(/** @type {HTMLFormElement} */ (event.target))));
      onClose();
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      setProblem(error);
    }
  };
  return html`<${Dialog} title=${isNew ? t("access.user.new") : t("access.password.title")} onClose=${onClose}><form onSubmit=${submit} class="stack">
    ${
      isNew
        ? html`<${Field} label=${t("login.user")} hint=${t("access.user.hint")} problem=${problem} path="name">${(/** @type {any} */ a) => html`<input ...${a} name="name" required maxlength="64" autofocus autocomplete="off" autocapitalize="none" spellcheck=${false} />`}<//>
      <${Field} label=${t("access.role")} problem=${problem} path="role">${(/** @type {any} */ a) => html`<select ...${a} name="role">${ROLES.map((role) => html`<option value=${role}>${t(`access.role.${role}`)}</option>`)}</select>`}<//>`
        : html`<p><strong><${Text} value=${user.name} /></strong></p><p>${t("access.password.text")}</p>`
    }
    <${Field} label=${t("login.password")} hint=${t("access.password.hint")} problem=${problem} path="password">${(/** @type {any} */ a) => html`<input ...${a} name="password" type="password" required minlength="12" maxlength="200" autocomplete="new-password" />`}<//>
    <${ErrorBox} problem=${problem} /><footer><${Button} onClick=${onClose}>${t("cancel")}<//><button class="button primary">${isNew ? t("access.add") : t("save")}</button></footer></form><//>`;
}

/** @param {{title: string, verb: string, onConfirm: () => Promise<void>, onClose: () => void, children?: any}} props */
function Sure({ title, verb, onConfirm, onClose, children }) {
  const [problem, setProblem] = useState(/** @type {Problem | null} */ (null));
  const confirm = async () => {
    try {
      await onConfirm();
      onClose();
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      setProblem(error);
    }
  };
  return html`<${Dialog} title=${title} onClose=${onClose}>${children}<${ErrorBox} problem=${problem} /><footer><${Button} onClick=${onClose}>${t("cancel")}<//><${Button} kind="danger" onClick=${confirm}>${verb} (1)<//></footer><//>`;
}
