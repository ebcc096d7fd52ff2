/** The dialogs that create and change tokens and users. */
import { patch, post } from "../core/api.js";
import { t } from "../core/i18n.js";
import { html, useState } from "../core/lib.js";
import { namespace } from "../core/namespaces.js";
import { visible } from "../core/text.js";
import { Button, Code } from "../ui/controls.js";
import { Dialog } from "../ui/dialogs.js";
import { DurationField, endOf, unreadable } from "../ui/durations.js";
import { FormDialog } from "../ui/form_dialog.js";
import { Text, durationText, nowMs } from "../ui/formats.js";
import { FormCheck, FormField, useForm } from "../ui/forms.js";

/** @typedef {import("../../answers").Schemas["NewTokenView"]} NewTokenView */

/** @typedef {import("../../answers").Schemas["UserView"]} UserView */

/** @typedef {import("../ui/forms.js").Values} Values */

const SCOPES = ["push", "work", "read", "operate", "admin"];
const ROLES = ["viewer", "operator", "admin"];
/** A user with roles in single namespaces does not need a role in the installation. */
const ROLES_WITH_NAMESPACES = ["none", ...ROLES];
const DAY_S = 86_400;
const LIVES_DAYS = ["", "30", "90", "365"];

/** @param {Record<string, string>} roles By namespace. @returns {string} The roles as text, for people to edit. */
const rolesText = (roles) =>
  Object.entries(roles)
    .map(([name, role]) => `${name}=${role}`)
    .join(" ");

/** @param {string} text @returns {Record<string, string>} The roles by namespace; the API checks them. */
const rolesOf = (text) =>
  Object.fromEntries(
    text
      .split(/[\s,]+/)
      .filter(Boolean)
      .map((entry) => {
        const [name = "", role = ""] = entry.split("=");
        return [name, role];
      }),
  );

/**
 * The inputs for the role, and for the roles in single namespaces.
 *
 * @param {{form: import("../ui/forms.js").FormInputs, isFirst?: boolean, hasNamespaces: boolean}} props
 */
function RoleFields({ form, isFirst = false, hasNamespaces }) {
  const roles = isFirst ? ["admin"] : hasNamespaces ? ROLES_WITH_NAMESPACES : ROLES;
  return html`<${FormField}
      form=${form} name="role" as="select" label=${t("access.role")} hint=${isFirst && t("access.user.first")}>
      ${roles.map((role) => html`<option key=${role} value=${role}>${t(`access.role.${role}`)}</option>`)}
    <//>
    ${
      hasNamespaces &&
      !isFirst &&
      html`<${FormField}
          form=${form} name="namespaces" label=${t("access.roles")} hint=${t("access.roles.hint")}
          maxlength="2000" spellcheck=${false} autocapitalize="none" />`
    }`;
}

/** @param {{token: NewTokenView, text: string, onClose: () => void}} props The token is shown only this once. */
function Secret({ token, text, onClose }) {
  return html`<${Dialog} title=${text} onClose=${onClose}>
      <p>${t("access.once")}</p><${Code} text=${token.token} label=${t("login.token")} />
      <footer><${Button} kind="primary" onClick=${onClose}>${t("close")}<//></footer>
    <//>`;
}

/** @param {{onClose: () => void, onDone: () => Promise<void>}} props */
export function NewToken({ onClose, onDone }) {
  const [made, setMade] = useState(/** @type {NewTokenView | null} */ (null));
  const form = useForm(null, () => ({
    label: "",
    names: "",
    namespaces: "",
    life: "",
    ...Object.fromEntries(SCOPES.map((scope) => [scope, scope === "push" ? "yes" : ""])),
  }));
  const save = async (/** @type {Values} */ values) => {
    const words = (/** @type {string} */ field) => (values[field] ?? "").split(/[\s,]+/).filter(Boolean);
    const names = words("names");
    const namespaces = words("namespaces");
    setMade(
      await post("api/tokens", {
        label: values["label"],
        scopes: SCOPES.filter((scope) => values[scope]),
        ...(values["life"] && { ttl_s: Number(values["life"]) * DAY_S }),
        ...(names.length > 0 && { names }),
        ...(namespaces.length > 0 && { namespaces }),
      }),
    );
    await onDone();
    return t("access.token.done", { label: visible(values["label"] ?? "") });
  };
  if (made) return html`<${Secret} token=${made} text=${t("access.token.made")} onClose=${onClose} />`;
  return html`<${FormDialog}
      title=${t("access.token.new")} form=${form} onClose=${onClose} onSave=${save} isNew staysOpen
      saveLabel=${t("access.create")}>
      <${FormField}
        form=${form} name="label" label=${t("access.label")} hint=${t("access.label.hint")} maxlength="100" />
      <fieldset class="plain-set">
        <legend>${t("access.scopes")}</legend>
        ${SCOPES.map(
          (scope) =>
            html`<${FormCheck} key=${scope} form=${form} name=${scope}>
                <span>
                  ${t(`access.scope.${scope}`)} <span class="muted">${t(`access.scope.${scope}.text`)}</span>
                </span>
              <//>`,
        )}
      </fieldset>
      <${FormField}
        form=${form} name="names" label=${t("access.names")} hint=${t("access.names.hint")} maxlength="1000"
        spellcheck=${false} />
      ${
        !namespace &&
        html`<${FormField}
            form=${form} name="namespaces" label=${t("nav.namespaces")} hint=${t("access.namespaces.hint")}
            maxlength="1000" spellcheck=${false} autocapitalize="none" />`
      }
      <${FormField} form=${form} name="life" path="ttl_s" as="select" label=${t("access.life")}>
        ${LIVES_DAYS.map(
          (days) =>
            html`<option key=${days} value=${days}>${days ? t("access.days", { count: Number(days) }) : t("access.no_end")}</option>`,
        )}
      <//>
    <//>`;
}

/** @param {{token: import("../../answers").Schemas["TokenView"], onClose: () => void, onDone: () => Promise<void>}} props */
export function RotateToken({ token, onClose, onDone }) {
  const [made, setMade] = useState(/** @type {NewTokenView | null} */ (null));
  const form = useForm(null, () => ({ overlap: durationText(DAY_S * 1000) }));
  const save = async (/** @type {Values} */ values) => {
    const text = values["overlap"] ?? "";
    const end = endOf(text);
    if (text.trim() && end === null) throw unreadable("overlap_s");
    const overlap_s = end === null ? 0 : Math.ceil((end - nowMs()) / 1000);
    setMade(await post(`api/tokens/${encodeURIComponent(token.id)}/rotate`, { overlap_s }));
    await onDone();
    return t("access.token.done", { label: visible(token.label) });
  };
  if (made) return html`<${Secret} token=${made} text=${t("access.token.made")} onClose=${onClose} />`;
  return html`<${FormDialog} title=${t("access.rotate.title")} form=${form} onClose=${onClose} onSave=${save} isNew staysOpen saveLabel=${t("access.rotate")}>
    <p><strong><${Text} value=${token.label} /></strong></p><p>${t("access.rotate.text")}</p>
    <${DurationField} form=${form} name="overlap" path="overlap_s" label=${t("access.overlap")} empty=${t("access.overlap.none")} /><//>`;
}

/**
 * @param {{isFirst: boolean, hasNamespaces: boolean, onClose: () => void, onDone: () => Promise<void>}} props
 *   `isFirst`: there is no user yet, so the new user must be an admin.
 */
export function NewUser({ isFirst, hasNamespaces, onClose, onDone }) {
  const role = isFirst ? "admin" : "viewer";
  const form = useForm(null, () => ({ name: "", role, namespaces: "", password: "" }));
  const save = async (/** @type {Values} */ values) => {
    await post("api/users", { ...values, namespaces: rolesOf(values["namespaces"] ?? "") });
    await onDone();
    return t("access.user.made", { name: visible(values["name"] ?? "") });
  };
  return html`<${FormDialog}
      title=${t("access.user.new")} form=${form} onClose=${onClose} onSave=${save} isNew
      saveLabel=${t("access.add")}>
      <${FormField}
        form=${form} name="name" label=${t("login.user")} hint=${t("access.user.hint")} maxlength="64"
        autocapitalize="none" spellcheck=${false} />
      <${RoleFields} form=${form} isFirst=${isFirst} hasNamespaces=${hasNamespaces} />
      <${FormField}
        form=${form} name="password" type="password" label=${t("login.password")}
        hint=${t("access.password.hint")} maxlength="200" autocomplete="new-password" />
    <//>`;
}

/** @param {{user: UserView, path: string, isMe: boolean, hasNamespaces: boolean, onClose: () => void, onDone: () => Promise<void>}} props */
export function ChangeRole({ user, path, isMe, hasNamespaces, onClose, onDone }) {
  const form = useForm(user, ({ role, namespaces }) => ({ role, namespaces: rolesText(namespaces) }));
  const save = async (/** @type {Values} */ { role, namespaces }) => {
    await patch(path, { role, namespaces: rolesOf(namespaces ?? "") });
    await onDone();
    return t("access.role.done", { name: visible(user.name), role: t(`access.role.${role}`) });
  };
  return html`<${FormDialog} title=${t("access.role.title")} form=${form} onClose=${onClose} onSave=${save}>
    <p><strong><${Text} value=${user.name} /></strong></p><p>${t(isMe ? "access.role.text.me" : "access.role.text")}</p>
    <${RoleFields} form=${form} hasNamespaces=${hasNamespaces} /><//>`;
}

/** @param {{user: UserView, path: string, onClose: () => void}} props */
export function NewPassword({ user, path, onClose }) {
  const form = useForm(null, () => ({ password: "" }));
  const save = async (/** @type {Values} */ { password }) => {
    await patch(path, { password });
    return t("access.password.done");
  };
  return html`<${FormDialog}
      title=${t("access.password.title")} form=${form} onClose=${onClose} onSave=${save} isNew>
      <p><strong><${Text} value=${user.name} /></strong></p><p>${t("access.password.text")}</p>
      <${FormField}
        form=${form} name="password" type="password" label=${t("login.password")}
        hint=${t("access.password.hint")} maxlength="200" autocomplete="new-password" />
    <//>`;
}
