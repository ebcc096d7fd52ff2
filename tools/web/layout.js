// Lay out html`` templates that have a line of more than 160 columns: Prettier formats only the JavaScript in their
// holes, and only if a hole has a line break. Add line breaks only where htm drops white space, so that the pages do
// not change.
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import htm from "htm";
import { doc, format } from "prettier";
import { templatesOf, treeOf } from "./templates.js";

const { align, fill, group, hardline, indent, join: joined, line, literalline, softline } = doc.builders;
const here = dirname(fileURLToPath(import.meta.url));
const web = join(here, "../../jqmaster/web");
const options = { parser: "babel", ...JSON.parse(readFileSync(join(here, ".prettierrc.json"), "utf8")) };
const PRINTED = { printWidth: options.printWidth, tabWidth: 2, useTabs: false };
const NOT_OURS = ["bundle", "lang", "vendor"];
const LONGEST = 160;
// Maximum number of passes. If Prettier removes a line break in a hole, the next pass lays out the templates inside the
// hole instead.
const MAX_PASSES = 30;

/** Returns the sources that may have templates. */
const sources = (folder = web) =>
  readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return NOT_OURS.includes(entry.name) ? [] : sources(path);
    return entry.name.endsWith(".js") ? [path] : [];
  });

/** Returns, as text, what htm makes of a template. */
function reading({ texts }) {
  const bound = htm.bind((type, props, ...children) => ({ type, props, children }));
  return JSON.stringify(bound([...texts], ...texts.slice(1).map((_, at) => `hole ${at}`)));
}

/** A document of Prettier for a template whose text begins in `column` of a line that is indented by `depth`. */
function documentOf(template, tree, column, depth) {
  const hole = (at) => {
    const code = template.holes[at];
    if (code.includes("\n")) return ["${", joined(literalline, code.split("\n")), "}"];
    return group(["${", indent([softline, code]), softline, "}"]);
  };
  const part = (pieces) => pieces.map((piece) => (typeof piece === "string" ? piece : hole(piece.hole)));
  const element = ({ name, attributes, children, isWhole, close }) => {
    const end = isWhole ? " />" : ">";
    const inside = attributes.length > 0 && indent([line, fill(joined(line, attributes.map(part)))]);
    const begin = group(["<", part(name), inside || "", end]);
    if (isWhole) return begin;
    const { before, content, after } = contentOf(children);
    const whole = content.length > 0 && [indent([before, fill(content)]), after];
    return group([begin, whole || "", "<", part(close), ">"]);
  };
  // White space with a line break at the end of a text has no meaning. Keep all other white space, and add no line
  // break there.
  const edgesOf = (text) => ({
    before: /^\s*\n/.test(text) ? hardline : /^\s/.test(text) ? "" : softline,
    content: text.replace(/^\s*\n\s*|\s*\n\s*$/g, ""),
    after: /\n\s*$/.test(text) ? hardline : /\s$/.test(text) ? "" : softline,
  });
  const contentOf = (children) => {
    const pieces = children.map((child) =>
      child.text === undefined
        ? { before: softline, content: child.name ? element(child) : hole(child.hole), after: softline }
        : edgesOf(child.text),
    );
    const content = [];
    let edge = null;
    const meet = (one, other) => (one === "" || other === "" ? "" : one === hardline ? one : other);
    let before = softline;
    for (const piece of pieces) {
      const between = edge === null ? piece.before : meet(edge, piece.before);
      if (piece.content === "") {
        edge = hardline;
        continue;
      }
      if (content.length === 0) {
        before = between === softline && edge ? edge : between;
        content.push([piece.content]);
      } else if (between === "") content.at(-1).push(piece.content);
      else content.push(between, [piece.content]);
      edge = piece.after;
    }
    return { before, content, after: edge ?? softline };
  };
  return align(depth, ["X".repeat(column), indent(fill(contentOf(tree).content))]);
}

/** Returns the text of a template with its new layout, or unchanged if it cannot be laid out. */
function laidOut(template, column, depth) {
  const present = template.texts
    .map((text, at) => text + (at < template.holes.length ? `\${${template.holes[at]}}` : ""))
    .join("");
  const tree = treeOf(template);
  if (!tree || tree.some(({ text }) => text?.trim().includes("\n"))) return present;
  const printed = doc.printer.printDocToString(documentOf(template, tree, column, depth), PRINTED).formatted;
  const text = printed.slice(column).replace(/[ \t]+(?=\n)/g, "");
  const [made] = templatesOf(`html\`${text}\``);
  if (reading(made) !== reading(template)) throw new Error(`The layout changes what this means:\n${present}`);
  return text;
}

/** Returns the text of a file after its long templates were laid out, outer ones first. */
async function formatted(text) {
  let settled = [];
  for (let pass = 0; pass < MAX_PASSES; pass++) {
    const edits = [];
    for (const template of templatesOf(text)) {
      const { start, end } = template;
      if (settled.includes(start) || edits.some((edit) => start > edit.start && end < edit.end)) continue;
      const from = text.lastIndexOf("\n", start - 1) + 1;
      const lines = text.slice(from, `${text}\n`.indexOf("\n", end)).split("\n");
      if (lines.every((one) => one.length <= LONGEST)) continue;
      const made = laidOut(template, start - from, lines[0].search(/\S/));
      if (made !== text.slice(start, end)) edits.push({ start, end, made });
    }
    if (edits.length === 0) break;
    const before = text;
    for (const { start, end, made } of edits.reverse()) text = text.slice(0, start) + made + text.slice(end);
    text = await format(text, options);
    settled = text === before ? [...settled, ...edits.map((edit) => edit.start)] : [];
  }
  return text;
}

for (const path of sources()) {
  const text = readFileSync(path, "utf8");
  if (text.split("\n").every((one) => one.length <= LONGEST)) continue;
  const made = await formatted(text);
  if (made !== text) writeFileSync(path, made);
}
