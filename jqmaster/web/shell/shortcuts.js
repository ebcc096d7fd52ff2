/** The keys that work on every page, and the dialog that lists them. */
import { t } from "../core/i18n.js";
import { html, useEffect, useRef } from "../core/lib.js";
import { usePref } from "../core/prefs.js";
import { go } from "../core/router.js";
import { Dialog } from "../ui/dialogs.js";
import { keysInForce } from "../ui/keys.js";

/** @typedef {{page: import("../core/router.js").PageName, key: string}} Entry A page, and the key that follows `g`. */

const CHORD_MS = 1500;

/** @param {{entries: Entry[], onClose: () => void}} props */
export function Help({ entries, onClose }) {
  const [keys, setKeys] = usePref("keys", "on");
  const rows = [
    ...entries.map((entry) => [`g ${entry.key}`, t(`nav.${entry.page}`)]),
    ["Ctrl K", t("palette")],
    ["/", t("search")],
    ["j / k", t("key.rows")],
    ["Enter", t("key.open")],
    ["x", t("key.select")],
    ["Escape", t("key.escape")],
    ["?", t("help.keys")],
  ];
  return html`<${Dialog} title=${t("help.keys")} onClose=${onClose}>
    <table class="keys"><tbody>${rows.map(([key, text]) => html`<tr key=${key}><th scope="row"><kbd>${key}</kbd></th><td>${text}</td></tr>`)}</tbody></table>
    <label class="check"><input type="checkbox" checked=${keys === "on"} onChange=${() => setKeys(keys === "on" ? "off" : "on")} /> ${t("keys.on")}</label>
  <//>`;
}

/**
 * @param {Entry[]} entries
 * @param {() => void} onHelp
 * @param {() => void} onPalette
 */
export function useShortcuts(entries, onHelp, onPalette) {
  const [isOn] = usePref("keys", "on");
  const prefix = useRef({ key: "", at: 0 });
  useEffect(() => {
    const press = (/** @type {KeyboardEvent} */ event) => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k" && !event.altKey) {
        event.preventDefault();
        if (!document.querySelector("dialog[open]")) onPalette();
        return;
      }
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing)
        return;
      const target = event.target;
      const isTyping =
        target instanceof HTMLElement &&
        (target.isContentEditable ||
          target.matches("textarea, select, input:not([type=checkbox], [type=radio])"));
      if (event.key === "Escape" && target instanceof HTMLElement && !target.closest("dialog")) {
        for (const layer of [...keysInForce()].reverse())
          if (layer.keys["Escape"] && !isTyping) {
            layer.keys["Escape"]();
            return;
          }
        target.blur();
        return;
      }
      // Ignore Shift, which belongs to the key that follows it.
      if (event.key === "Shift") return;
      if (isTyping || isOn !== "on" || document.querySelector("dialog[open]")) return;
      const chord =
        prefix.current.key && Date.now() - prefix.current.at < CHORD_MS
          ? `${prefix.current.key} ${event.key}`
          : "";
      prefix.current = { key: event.key === "g" ? "g" : "", at: Date.now() };
      const entry = entries.find((one) => chord === `g ${one.key}`);
      if (entry) {
        event.preventDefault();
        const own = keysInForce().find((layer) => layer.keys[chord]);
        if (own) own.keys[chord]?.();
        else go(entry.page);
        return;
      }
      if (event.key === "?") {
        event.preventDefault();
        onHelp();
        return;
      }
      for (const layer of [...keysInForce()].reverse()) {
        const act = (chord && layer.keys[chord]) || layer.keys[event.key];
        if (act) {
          event.preventDefault();
          act();
          return;
        }
      }
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, [isOn]);
}
