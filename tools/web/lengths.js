// Print how many lines each function of the web UI has, as JSON: {"jobs/pages/job.js:Page": 60}. A function inside
// another counts for both. Comments above a function do not count.
import { readFileSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import ts from "typescript";

const web = join(dirname(fileURLToPath(import.meta.url)), "../../jqmaster/web");

/** Returns the name of a function: its own, or that of what it is assigned or passed to. */
function nameOf(node) {
  const named = node.name ?? node.parent.name;
  if (named) return named.getText();
  return ts.isCallExpression(node.parent) ? `${node.parent.expression.getText()}()` : "?";
}

/** Yields the name and the number of lines of each function. */
function* lengths(text) {
  const file = ts.createSourceFile("page.js", text, ts.ScriptTarget.Latest, true, ts.ScriptKind.JS);
  const lineOf = (at) => file.getLineAndCharacterOfPosition(at).line;
  const open = [file];
  while (open.length) {
    const node = open.pop();
    if (ts.isFunctionLike(node) && node.body)
      yield [nameOf(node), lineOf(node.getEnd()) - lineOf(node.getStart()) + 1];
    ts.forEachChild(node, (child) => void open.push(child));
  }
}

const found = {};
for (const path of readdirSync(web, { recursive: true })) {
  if (!path.endsWith(".js") || /^(bundle|vendor)[/\\]/.test(path)) continue;
  for (const [name, lines] of lengths(readFileSync(join(web, path), "utf8"))) {
    const key = `${path.replaceAll("\\", "/")}:${name}`;
    found[key] = Math.max(found[key] ?? 0, lines);
  }
}
console.log(JSON.stringify(found));
