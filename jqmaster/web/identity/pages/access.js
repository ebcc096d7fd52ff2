/** Access: tokens for programs, users for people. */
import { html, useState } from "../../core/lib.js";
import { ChangeRole, NewPassword, NewToken, NewUser, RotateToken } from "../access_dialogs.js";
import { call, del, fetchSession, get, may, patch } from "../../core/api.js";
import { t, tOr } from "../../core/i18n.js";
import { useResource } from "../../core/resource.js";
import { namespace, ofInstallation } from "../../core/namespaces.js";
import { visible } from "../../core/text.js";
import { Button, Empty, ErrorBox, Loading } from "../../ui/controls.js";
import { Sure, toast } from "../../ui/dialogs.js";
import { Badge, Text, Time } from "../../ui/formats.js";
import { Table } from "../../ui/tables.js";
import { whoText } from "../value_words.js";

/** @typedef {import("../../../answers").Schemas["TokenView"]} Token */
/** @typedef {import("../../../answers").Schemas["UserView"]} UserView */

/** @typedef {{what: "create"} | {what: "rotate" | "revoke", of: Token}} AskedOfTokens */
/** @typedef {{what: "add"} | {what: "role" | "password" | "disable" | "remove", of: UserView}} AskedOfUsers */

/** @param {{session: import("../../core/api.js").Session, onSession: (session: import("../../core/api.js").Session) => void}} props */
export function Page({ session, onSession }) {
  if (!may(session, "admin"))
    return html`<h1>${t("nav.access")}</h1><${Empty} title=${t("access.forbidden")} />`;
  return html`<div class="page-head"><h1>${t("nav.access")}</h1></div><${Tokens} />${
    namespace
      ? html`<p class="muted after">${t("namespaces.of_installation")} <a href=${ofInstallation("#/access")}>${t("access.users")}</a></p>`
      : html`<${Users} me=${session.method === "session" ? session.who : null} hasNamespaces=${session.has_namespaces} onSession=${onSession} />`
  }`;
}

function Tokens() {
  const { data, problem, reload } = useResource((signal) => get("api/tokens", {}, signal), [], {
    everyMs: 30_000,
  });
  const [asked, setAsked] = useState(/** @type {AskedOfTokens | null} */ (null));
  const tokens = data?.tokens ?? [];
  const close = () => setAsked(null);
  return html`<section aria-labelledby="tokens">
      <div class="page-head">
        <h2 id="tokens">${t("access.tokens")}</h2>
        <${Button} opensDialog onClick=${() => setAsked({ what: "create" })}>${t("access.token.new")}<//>
      </div>
      <p class="muted">${t("access.tokens.text")}</p><${ErrorBox} problem=${problem} onRetry=${reload} />
      ${
        data === null
          ? !problem && html`<${Loading} />`
          : html`<${Table}
              caption=${t("access.tokens")} rows=${tokens} rowKey=${(/** @type {Token} */ token) => token.id}
              empty=${html`<${Empty} title=${t("access.tokens.none")} curl="jqmaster tokens create operations --scope admin" />`}
              columns=${tokenColumns(tokens, setAsked)} />`
      }
      ${asked?.what === "create" && html`<${NewToken} onClose=${close} onDone=${reload} />`}
      ${
        asked?.what === "rotate" &&
        html`<${RotateToken} token=${asked.of} onClose=${close} onDone=${reload} />`
      }
      ${
        asked?.what === "revoke" &&
        html`<${Sure} title=${t("access.revoke.title")} verb=${t("access.revoke")} onClose=${close} onConfirm=${async () => {
          await del(`api/tokens/${encodeURIComponent(asked.of.id)}`);
          toast(t("access.revoked"));
          await reload();
        }}><p><strong><${Text} value=${asked.of.label} /></strong></p><p>${t("access.revoke.text")}</p><//>`
      }
    </section>`;
}

/**
 * @param {Token[]} tokens
 * @param {(asked: AskedOfTokens) => void} onAsk
 * @returns {import("../../ui/tables.js").Column<Token>[]}
 */
function tokenColumns(tokens, onAsk) {
  const labels = new Map(tokens.map((token) => [`token:${token.id}`, token.label]));
  const at = (/** @type {string | null} */ instant) =>
    instant ? html`<${Time} at=${instant} />` : t("access.never");
  /** @type {import("../../ui/tables.js").Column<Token>} */
  const namespaces = {
    key: "namespaces",
    label: t("nav.namespaces"),
    phone: "line",
    render: (token) =>
      token.namespaces.includes("*")
        ? t("access.namespaces.all")
        : html`<${Text} value=${token.namespaces.join(", ")} max=${80} />`,
  };
  return [
    {
      key: "label",
      label: t("access.label"),
      phone: "main",
      render: (token) =>
        html`<${Text} value=${token.label} max=${60} />
          ${token.is_replaced && html` <${Badge} kind="off">${t("access.replaced")}<//>`}
          ${
            token.names?.length > 0 &&
            html` <span class="muted small"><${Text} value=${token.names.join(", ")} max=${80} /></span>`
          }`,
    },
    ...(tokens.some((token) => !namespace && !token.namespaces.includes("*")) ? [namespaces] : []),
    {
      key: "scopes",
      label: t("access.scopes"),
      phone: "side",
      render: (token) =>
        token.scopes.map(
          (/** @type {string} */ scope) =>
            html`<${Badge} kind=${scope === "admin" ? "warn" : "info"}>${tOr(`access.scope.${scope}`, visible(scope))}<//> `,
        ),
    },
    {
      key: "used",
      label: t("access.used"),
      phone: "line",
      align: "end",
      render: (token) => at(token.last_used_at),
    },
    {
      key: "expires",
      label: t("access.expires"),
      align: "end",
      priority: 2,
      render: (token) => at(token.expires_at),
    },
    {
      key: "created",
      label: t("job.created"),
      align: "end",
      priority: 3,
      render: (token) =>
        html`<${Time} at=${token.created_at} /> <span class="muted">${visible(labels.get(token.created_by) ?? whoText(token.created_by))}</span>`,
    },
    {
      key: "act",
      label: t("job.actions"),
      phone: "line",
      align: "end",
      render: (token) => html`<${TokenActions} token=${token} onAsk=${onAsk} />`,
    },
  ];
}

/** @param {{token: Token, onAsk: (asked: AskedOfTokens) => void}} props */
function TokenActions({ token, onAsk }) {
  return html`<span class="row end-row">
      <${Button} opensDialog class="small" onClick=${() => onAsk({ what: "rotate", of: token })}>
        ${t("access.rotate")}
      <//>
      <${Button} opensDialog class="small" kind="danger" onClick=${() => onAsk({ what: "revoke", of: token })}>
        ${t("access.revoke")}
      <//>
    </span>`;
}

/** @param {{me: string | null, hasNamespaces: boolean, onSession: (session: import("../../core/api.js").Session) => void}} props */
function Users({ me, hasNamespaces, onSession }) {
  const { data, problem, reload } = useResource((signal) => get("api/users", {}, signal), [], {
    everyMs: 30_000,
  });
  const [asked, setAsked] = useState(/** @type {AskedOfUsers | null} */ (null));
  const users = data?.users ?? [];
  const close = () => setAsked(null);
  const path = (/** @type {UserView} */ user) => `api/users/${encodeURIComponent(user.name)}`;
  const isMe = (/** @type {UserView} */ user) => me === `user:${user.name}`;
  const added = async () => {
    // As soon as the first user exists, everybody has to log in, and the login form changes.
    if (users.length === 0) onSession(await fetchSession());
    else await reload();
  };
  return html`<section class="after" aria-labelledby="users">
      <div class="page-head">
        <h2 id="users">${t("access.users")}</h2>
        <${Button} opensDialog onClick=${() => setAsked({ what: "add" })}>${t("access.user.new")}<//>
      </div>
      <p class="muted">${t("access.users.text")}</p><${ErrorBox} problem=${problem} onRetry=${reload} />
      ${
        data === null
          ? !problem && html`<${Loading} />`
          : html`<${Table}
              caption=${t("access.users")} rows=${users} rowKey=${(/** @type {UserView} */ user) => user.name}
              empty=${html`<${Empty} title=${t("access.users.none")}>${t("access.users.none.text")}<//>`}
              columns=${userColumns(isMe, setAsked)} />`
      }
      ${
        asked?.what === "add" &&
        html`<${NewUser} hasNamespaces=${hasNamespaces} isFirst=${users.length === 0} onClose=${close} onDone=${added} />`
      }
      ${
        asked?.what === "role" &&
        html`<${ChangeRole}
            hasNamespaces=${hasNamespaces || Object.keys(asked.of.namespaces).length > 0} user=${asked.of}
            path=${path(asked.of)} isMe=${isMe(asked.of)} onClose=${close} onDone=${reload} />`
      }
      ${
        asked?.what === "password" &&
        html`<${NewPassword} user=${asked.of} path=${path(asked.of)} onClose=${close} />`
      }
      ${
        asked?.what === "disable" &&
        html`<${DisableUser} user=${asked.of} path=${path(asked.of)} isMe=${isMe(asked.of)} onClose=${close} onDone=${reload} />`
      }
      ${
        asked?.what === "remove" &&
        html`<${Sure} title=${t("access.remove.title")} verb=${t("access.remove")} onClose=${close} onConfirm=${async () => {
          await call("DELETE", path(asked.of));
          toast(t("access.removed"));
          await reload();
        }}><p><strong><${Text} value=${asked.of.name} /></strong></p><p>${t("access.remove.text")}</p><//>`
      }
    </section>`;
}

/**
 * @param {(user: UserView) => boolean} isMe
 * @param {(asked: AskedOfUsers) => void} onAsk
 * @returns {import("../../ui/tables.js").Column<UserView>[]}
 */
const userColumns = (isMe, onAsk) => [
  {
    key: "name",
    label: t("login.user"),
    phone: "main",
    render: (user) =>
      html`<${Text} value=${user.name} max=${64} />
        ${isMe(user) && html` <span class="muted">${t("access.you")}</span>`} ${
          user.is_disabled && html`<${Badge} kind="off">${t("access.disabled")}<//>`
        }`,
  },
  {
    key: "role",
    label: t("access.role"),
    phone: "side",
    render: (user) =>
      html`${t(`access.role.${user.role}`)}
        ${Object.entries(user.namespaces).map(
          ([name, role]) =>
            html` <span class="muted small" key=${name}>${visible(name)}: ${t(`access.role.${role}`)}</span>`,
        )} <${Button}
          opensDialog class="small" aria-label=${t("access.role_of", { name: visible(user.name) })}
          onClick=${() => onAsk({ what: "role", of: user })}>
          ${t("settings.change")}
        <//>`,
  },
  {
    key: "login",
    label: t("access.last_login"),
    align: "end",
    priority: 2,
    render: (user) => (user.last_login_at ? html`<${Time} at=${user.last_login_at} />` : t("access.never")),
  },
  {
    key: "created",
    label: t("job.created"),
    align: "end",
    priority: 3,
    render: (user) => html`<${Time} at=${user.created_at} />`,
  },
  {
    key: "act",
    label: t("job.actions"),
    phone: "line",
    align: "end",
    render: (user) => html`<${UserActions} user=${user} onAsk=${onAsk} />`,
  },
];

/** @param {{user: UserView, onAsk: (asked: AskedOfUsers) => void}} props */
function UserActions({ user, onAsk }) {
  return html`<span class="row end-row">
      <${Button} opensDialog class="small" onClick=${() => onAsk({ what: "password", of: user })}>
        ${t("login.password")}
      <//>
      <${Button} opensDialog class="small" onClick=${() => onAsk({ what: "disable", of: user })}>
        ${t(user.is_disabled ? "access.enable" : "access.disable")}
      <//>
      <${Button} opensDialog class="small" kind="danger" onClick=${() => onAsk({ what: "remove", of: user })}>
        ${t("access.remove")}
      <//>
    </span>`;
}

/**
 * Asks for confirmation before a user is disabled or enabled again.
 * @param {{user: UserView, path: string, isMe: boolean, onClose: () => void, onDone: () => Promise<void>}} props
 */
function DisableUser({ user, path, isMe, onClose, onDone }) {
  const { is_disabled: isDisabled } = user;
  const confirm = async () => {
    await patch(path, { is_disabled: !isDisabled });
    toast(t(isDisabled ? "access.enabled.done" : "access.disabled.done"));
    await onDone();
  };
  const text = isDisabled ? "access.enable.text" : isMe ? "access.disable.text.me" : "access.disable.text";
  return html`<${Sure}
      title=${t(isDisabled ? "access.enable.title" : "access.disable.title")}
      verb=${t(isDisabled ? "access.enable" : "access.disable")} onClose=${onClose} onConfirm=${confirm}>
      <p><strong><${Text} value=${user.name} /></strong> ${isMe && t("access.you")}</p><p>${t(text)}</p>
    <//>`;
}
