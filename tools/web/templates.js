// Read the html`` templates of a source.
import ts from "typescript";

/** The templates of a file, outer ones before inner ones: where they are, their texts, and the code in their holes. */
export function templatesOf(text) {
  const found = [];
  const visit = (node) => {
    if (ts.isTaggedTemplateExpression(node) && node.tag.getText() === "html") {
      const { template } = node;
      const spans = template.templateSpans ?? [];
      const inside = (part) =>
        part
          .getText()
          .slice(1)
          .replace(/(\$\{|`)$/, "");
      found.push({
        start: template.getStart() + 1,
        end: template.getEnd() - 1,
        texts: spans.length
          ? [template.head, ...spans.map((span) => span.literal)].map(inside)
          : [inside(template)],
        holes: spans.map((span) => text.slice(span.expression.getFullStart(), span.literal.getStart())),
      });
    }
    ts.forEachChild(node, visit);
  };
  visit(ts.createSourceFile("page.js", text, ts.ScriptTarget.Latest, true, ts.ScriptKind.JS));
  return found;
}

/**
 * The children of a template: texts, the numbers of holes, and elements whose tags are lists of texts and holes. Null for
 * what this does not understand, such as a comment.
 */
export function treeOf({ texts, holes }) {
  const root = { children: [] };
  const open = [root];
  let tag = null;
  let quote = "";
  let said = "";
  const tell = () => {
    if (said) open.at(-1).children.push({ text: said });
    said = "";
  };
  const endPart = () => {
    if (tag.part.length > 1 || tag.part[0]) tag.parts.push(tag.part);
    tag.part = [""];
  };
  const add = (char) => (tag.part[tag.part.length - 1] += char);
  const endTag = () => {
    endPart();
    const [name, ...attributes] = tag.parts;
    tag = null;
    if (!name) return false;
    if (String(name[0]).startsWith("/")) {
      open.pop().close = name;
      return open.length > 0 && attributes.length === 0;
    }
    const isWhole = attributes.at(-1)?.join() === "/";
    if (isWhole) attributes.pop();
    const element = { name, attributes, children: [], isWhole };
    open.at(-1).children.push(element);
    if (!isWhole) open.push(element);
    return true;
  };
  for (const [at, text] of texts.entries()) {
    for (const char of text) {
      if (!tag && char !== "<") said += char;
      else if (!tag) {
        tell();
        tag = { parts: [], part: [""] };
      } else if (quote || char === '"' || char === "'") {
        add(char);
        quote = quote ? (char === quote ? "" : quote) : char;
      } else if (/\s/.test(char)) endPart();
      else if (char !== ">") add(char);
      else if (!endTag()) return null;
    }
    if (at === holes.length) break;
    if (tag) tag.part.push({ hole: at }, "");
    else {
      tell();
      open.at(-1).children.push({ hole: at });
    }
  }
  tell();
  return tag || open.length !== 1 ? null : root.children;
}
