/** Names of fields: camelCase in programs, snake_case on the wire. */

/** A name of the wire as programs write it. */
export type CamelCase<Name extends string> = Name extends `${infer Head}_${infer Tail}` ? `${Head}${Capitalize<CamelCase<Tail>>}` : Name;

/** Returns a field's name as the wire has it: `maxRetry` → `max_retry`. */
export function snakeCase(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

/** Returns a field's name as programs have it: `max_retry` → `maxRetry`. */
export function camelCase(name: string): string {
  return name.replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
}
