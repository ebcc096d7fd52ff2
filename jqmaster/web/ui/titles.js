/** The title of the tab, which tells one page from the others. */
import { useEffect } from "../lib.js";
import { visible } from "../text.js";

/** @param {string | null} title null while it is not known. */
export function useTitle(title) {
  useEffect(() => {
    if (title !== null) document.title = `${visible(title).slice(0, 120)} · jqmaster`;
  }, [title]);
}
