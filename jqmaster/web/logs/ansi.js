/** Converts the colours and styles of terminal output to pieces of text with names of classes. It does not interpret markup. */

const BASIC = 8;

/** @typedef {{text: string, class: string}} Piece */

/** @returns {{fg: string, bg: string, marks: Set<string>}} */
const plain = () => ({ fg: "", bg: "", marks: new Set() });
const MARKS = /** @type {Record<number, string>} */ ({ 1: "bold", 2: "dim", 3: "italic", 4: "underline" });
const UNMARKS = /** @type {Record<number, string[]>} */ ({
  22: ["bold", "dim"],
  23: ["italic"],
  24: ["underline"],
});

/**
 * Cut a line into pieces that each have one style.
 * @param {string} text A line. Its colours and styles take effect, and other escape sequences are left out.
 * @returns {Piece[]}
 */
export function ansiPieces(text) {
  if (!text.includes("\x1b")) return [{ text, class: "" }];
  /** @type {Piece[]} */
  const found = [];
  let look = plain();
  for (const part of text.split(/(\x1b\[[0-9;:]*m)/)) {
    if (part.startsWith("\x1b[")) look = changed(look, part.slice(2, -1));
    else if (part) found.push({ text: part.replaceAll("\x1b", ""), class: classOf(look) });
  }
  return found;
}

/** @param {string} text A line without its colours. */
export const withoutAnsi = (text) => text.replace(/\x1b\[[0-9;:]*m/g, "");

/**
 * @param {ReturnType<typeof plain>} look
 * @param {string} codes
 */
function changed(look, codes) {
  const numbers = codes.split(/[;:]/).map(Number);
  for (let at = 0; at < numbers.length; at += 1) {
    const code = numbers[at] ?? 0;
    if (code === 0) look = plain();
    else if (MARKS[code]) look.marks.add(MARKS[code]);
    else if (UNMARKS[code]) for (const mark of UNMARKS[code]) look.marks.delete(mark);
    else if (code === 39) look.fg = "";
    else if (code === 49) look.bg = "";
    else if (code >= 30 && code < 30 + BASIC) look.fg = `${code - 30}`;
    else if (code >= 40 && code < 40 + BASIC) look.bg = `${code - 40}`;
    else if (code >= 90 && code < 90 + BASIC) look.fg = `${code - 90 + BASIC}`;
    else if (code >= 100 && code < 100 + BASIC) look.bg = `${code - 100 + BASIC}`;
    else if (code === 38 || code === 48) {
      // Only the first 16 of the 256 colours have names. For the others, the text keeps its colour.
      const colour = numbers[at + 1] === 5 ? numbers[at + 2] : undefined;
      if (colour !== undefined && colour < 2 * BASIC) look[code === 38 ? "fg" : "bg"] = `${colour}`;
      at += numbers[at + 1] === 5 ? 2 : 4;
    }
  }
  return look;
}

/** @param {ReturnType<typeof plain>} look */
function classOf({ fg, bg, marks }) {
  const classes = [...marks].map((mark) => `ansi-${mark}`);
  if (fg) classes.push(`ansi-fg-${fg}`);
  if (bg) classes.push(`ansi-bg-${bg}`);
  return classes.join(" ");
}
