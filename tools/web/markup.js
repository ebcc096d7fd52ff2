// Convert html`` templates to JSX for the type checker, which checks the props of components only there. Keep line
// numbers, so that its errors refer to the sources.
import { templatesOf } from "./templates.js";

// A component that is the result of an expression. Its props are not checked.
const CHOSEN = "chosen-component";

/** Returns one template as JSX, without its texts, which have no types. */
function markupOf({ texts, holes }) {
  const open = [];
  let made = "(<>";
  // The tag that is being read: its name, and whether the name is complete. Null between tags.
  let tag = null;
  let quote = "";
  let isTextTold = false;
  const read = (char) => {
    if (!tag) {
      if (char === "<") tag = { name: "", isNamed: false };
      else if (/\s/.test(char)) made += char;
      else if (!isTextTold) made += '{""}';
      isTextTold = char !== "<" && (isTextTold || /\S/.test(char));
    } else if (quote || char === '"' || char === "'") {
      made += char;
      quote = quote && char === quote ? "" : quote || char;
    } else if (tag.isNamed) endOr(char);
    else if (/[\s>]/.test(char) || (char === "/" && tag.name)) {
      if (tag.name.startsWith("/")) {
        made += `</${open.pop()}>`;
        tag = null;
        return;
      }
      open.push(tag.name);
      made += `<${tag.name}`;
      tag.isNamed = true;
      endOr(char);
    } else tag.name += char;
  };
  const endOr = (char) => {
    if (char === ">" && made.endsWith("/")) open.pop();
    if (char === ">") tag = null;
    made += char;
  };
  for (const [at, text] of texts.entries()) {
    for (const char of text) read(char);
    if (at === holes.length) break;
    const code = holes[at];
    isTextTold = false;
    if (!tag) made += `{${code}}`;
    else if (!tag.isNamed && /^\w+$/.test(code.trim())) tag.name = code.trim();
    else if (!tag.isNamed) {
      tag = { name: CHOSEN, isNamed: true };
      open.push(CHOSEN);
      made += `<${CHOSEN} from={${code}}`;
    } else if (made.endsWith("...")) made = `${made.slice(0, -3)}{...(${code})}`;
    else made += `{${code}}`;
  }
  return `${made}</>)`;
}

/** Returns a source in which JSX replaces the templates. */
export function withMarkup(source) {
  let text = source;
  for (;;) {
    const all = templatesOf(text);
    // Convert inner templates first, because they are in the holes of outer ones.
    const inner = all.filter(
      ({ start, end }) => !all.some((other) => other.start > start && other.end < end),
    );
    if (inner.length === 0) break;
    for (const template of inner.reverse()) {
      const { start, end } = template;
      text = text.slice(0, start - "html`".length) + markupOf(template) + text.slice(end + 1);
    }
  }
  return text === source ? text : `${text}\nvoid html;\n`;
}
