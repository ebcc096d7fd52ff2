/** Names of fields: camelCase in programs, and snake_case on the wire. */

/** A name of the wire in the form for programs. */
export type CamelCase<Name extends string> = Name extends `${infer Head}_${infer Tail}` ? `${Head}${Capitalize<CamelCase<Tail>>}` : Name;

/** Returns the wire form of a field's name: `maxRetry` → `max_retry`. */
export function snakeCase(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

/** Returns the form for programs of a field's name: `max_retry` → `maxRetry`. */
export function camelCase(name: string): string {
  return name.replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
}
