/** Make text from outside safe to read: characters that would act on the page or deceive the reader are shown as escapes. */

// Controls, invisible and bidirectional characters, line and paragraph separators, lone surrogates, tags.
const UNSAFE =
  /[\u0000-\u0009\u000b-\u001f\u007f-\u00a0\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202f\u205f-\u206f\u3164\ufe00-\ufe0e\ufeff\uffa0\ufff0-\ufffb\u{e0000}-\u{e0fff}\ud800-\udfff]/gu;

/**
 * Split `text` into pieces that alternate between plain text and escapes. The first piece is plain text.
 * @param {string} text
 * @param {boolean} [isBlock] Whether line feeds and tabs may stay.
 * @returns {string[]}
 */
export function pieces(text, isBlock = false) {
  const found = [];
  let end = 0;
  for (const match of text.matchAll(UNSAFE)) {
    const char = match[0];
    if (isBlock && char === "\t") continue;
    found.push(text.slice(end, match.index), escape(char));
    end = match.index + char.length;
  }
  found.push(text.slice(end));
  return isBlock ? found : found.map((piece, i) => (i % 2 ? piece : piece.replaceAll("\n", "⏎")));
}

/**
 * Return the pieces of `pieces` as one string, for titles, labels and attributes.
 * @param {string} text
 */
export function visible(text) {
  return pieces(text).join("");
}

/** @param {string} char */
function escape(char) {
  const code = char.codePointAt(0) ?? 0;
  if (code === 0x1b) return "\\e";
  if (code < 0x100) return "\\x" + code.toString(16).padStart(2, "0");
  return code > 0xffff ? `\\u{${code.toString(16)}}` : "\\u" + code.toString(16).padStart(4, "0");
}

/**
 * Quote text as one word for a POSIX shell.
 * @param {string} text
 */
export function shellWord(text) {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : "'" + text.replaceAll("'", "'\\''") + "'";
}
