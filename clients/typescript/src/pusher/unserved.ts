/** Warns about names that no worker has ever served, because they may be misspelt. */

const warned = new Set<string>();

/** Warns once about each name in the list of an answer. */
export function warnOfNames(names: string): void {
  for (const name of names.split(",").map((one) => one.trim())) {
    if (name === "" || warned.has(name)) continue;
    warned.add(name);
    process.emitWarning(`no worker has ever served jobs named ${name}: they wait until one does`, "JqmasterWarning");
  }
}
