/** Checks options when they are given. In JavaScript, and after a cast, the compiler has not checked them. */

import { camelCase } from "../wire/names.js";
import { meantBy } from "./other-queues.js";

/** The kind of a value, in the words of errors. */
export type Kind = keyof typeof ACCEPTS;

/** The options of an interface, with the kind of each. The compiler demands each name, and refuses any other. */
export type OptionKinds<Options> = {
  readonly [Name in keyof Options]-?: Kind | OptionKinds<Exclude<Options[Name], undefined>>;
};

/** One function or class, and the options that it takes. */
export interface CheckedOptions {
  /** The function or class, for errors. */
  readonly of: string;
  readonly kinds: Readonly<Record<string, unknown>>;
  /** An example of the options, for errors. */
  readonly example: string;
  /** Null leaves the choice to the master, as for the options of jobs. */
  readonly takesNull?: boolean;
  /** Names of options of jobs. They are not given here, and an error says where to give them. */
  readonly ofJobs?: readonly string[];
}

const ACCEPTS = {
  "a text": (value: unknown) => typeof value === "string",
  "a number": (value: unknown) => typeof value === "number" && !Number.isNaN(value),
  "true or false": (value: unknown) => typeof value === "boolean",
  "a function": (value: unknown) => typeof value === "function",
  "an object": isMap,
  "a list": Array.isArray,
  "a text or a list of texts": (value: unknown) => typeof value === "string" || Array.isArray(value),
  "a list or an object": (value: unknown) => typeof value === "object" && value !== null,
  "a text or an object": (value: unknown) => typeof value === "string" || isMap(value),
  "a Date or a text": (value: unknown) => typeof value === "string" || value instanceof Date,
  anything: () => true,
} as const satisfies Record<string, (value: unknown) => boolean>;

/** Returns the options of a function or class, which `check` reads. */
export function checkedOptions<Options>(of: string, kinds: OptionKinds<Options>, example: string): CheckedOptions {
  return { of, kinds, example };
}

/** Returns options without some of them. */
export function without<Kinds extends object, Name extends keyof Kinds & string>(kinds: Kinds, ...names: readonly Name[]): Omit<Kinds, Name> {
  return Object.fromEntries(Object.entries(kinds).filter(([name]) => !names.includes(name as Name))) as Omit<Kinds, Name>;
}

/**
 * Checks the options of a call.
 *
 * @throws TypeError for unknown options, with the options that the caller may mean. Otherwise, TypeError for the first
 * option that has a value of a wrong type.
 */
export function check({ of, kinds, example, takesNull = false, ofJobs = [] }: CheckedOptions, options: unknown): void {
  if (!isMap(options)) throw new TypeError(`${of} takes its options as an object, such as ${example}, not ${described(options)}`);
  const unknown = Object.keys(options).filter((name) => !Object.hasOwn(kinds, name));
  if (unknown.length > 0) {
    const told = unknown.map((name) => name + meantBy(camelCase(name), Object.keys(kinds), ofJobs));
    throw new TypeError(`not an option of ${of}: ${told.join(", ")}`);
  }
  for (const [name, value] of Object.entries(options)) {
    const kind = kinds[name] as Kind | Readonly<Record<string, unknown>>;
    if (value === undefined || (value === null && takesNull)) continue;
    if (typeof kind === "string") checkValue(of, name, value, kind);
    else check({ of: name, kinds: kind, example: `{ ${Object.keys(kind)[0] ?? ""}: … }`, takesNull }, value);
  }
}

/** Checks one value. Throws TypeError if it has a wrong type. */
export function checkValue(of: string, name: string, value: unknown, kind: Kind): void {
  if (!ACCEPTS[kind](value)) throw new TypeError(`${of}: ${name} must be ${kind}, not ${described(value)}`);
}

function isMap(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Describes a value without showing it, because it may be secret. */
function described(value: unknown): string {
  if (value === null || value === undefined || Number.isNaN(value)) return String(value);
  if (Array.isArray(value)) return "a list";
  if (typeof value === "string") return "a text";
  return typeof value === "object" ? "an object" : `a ${typeof value}`;
}
