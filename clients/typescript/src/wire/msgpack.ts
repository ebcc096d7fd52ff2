/** MessagePack in the form of masters. A value that would arrive changed, for example rounded, is refused. */

import { Decoder, Encoder, ExtData } from "@msgpack/msgpack";

/** The content type of all bodies. */
export const CONTENT_TYPE = "application/msgpack";

const MIN_INT64 = -(2n ** 63n);
const MAX_UINT64 = 2n ** 64n - 1n;
const MAX_INT32 = 2 ** 32 - 1;
const MIN_INT32 = -(2 ** 31);
/** Far beyond the limit of masters, so that a cycle is detected. */
const MAX_DEPTH = 64;

const decoder = new Decoder({ useBigInt64: true, mapKeyConverter: textKey });

/**
 * Returns the MessagePack of a value. A field with the value `undefined` is omitted, as in JSON.
 *
 * @throws TypeError for a value that cannot be sent, with its path.
 */
export function encode(value: unknown): Uint8Array<ArrayBuffer> {
  // Use a separate encoder, because a getter or a `toJSON` may itself encode something.
  return new Encoder({ useBigInt64: true, ignoreUndefined: true }).encode(sendable(value, "", 0));
}

/**
 * Returns the value of MessagePack bytes. Integers beyond ±(2⁵³ − 1) are bigints, timestamps are dates, binary is a
 * `Uint8Array`.
 *
 * @throws Error for bytes that are not MessagePack, or for a value that JavaScript cannot represent.
 */
export function decode(bytes: Uint8Array): unknown {
  return asNumbers(decoder.decode(bytes));
}

/** Returns the MessagePack of a map with one field: a list of encoded values. */
export function encodeList(field: string, items: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const head = new Uint8Array([0x81, ...encode(field), 0xdd]);
  const body = new Uint8Array(items.reduce((size, item) => size + item.length, head.length + 4));
  body.set(head);
  new DataView(body.buffer).setUint32(head.length, items.length);
  let at = head.length + 4;
  for (const item of items) {
    body.set(item, at);
    at += item.length;
  }
  return body;
}

/** Returns whether a decoded value is a map. */
export function isMap(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && [Object.prototype, null].includes(Object.getPrototypeOf(value) as object | null);
}

function textKey(key: unknown): string {
  if (typeof key === "string") return key;
  if (typeof key === "number" || typeof key === "bigint") return String(key);
  throw new RangeError(`a map has a key that is not text: ${typeof key}`);
}

/**
 * Returns the value to encode. Integers beyond 32 bits become bigints, because the encoder would write them as floats.
 */
function sendable(value: unknown, path: string, depth: number): unknown {
  switch (typeof value) {
    case "undefined":
    case "boolean":
      return value;
    case "string":
      if (!value.isWellFormed()) throw unsendable(path, "has half of a surrogate pair; send value.toWellFormed()");
      return value;
    case "number":
      return Number.isSafeInteger(value) && (value > MAX_INT32 || value < MIN_INT32) ? BigInt(value) : value;
    case "bigint":
      if (value < MIN_INT64 || value > MAX_UINT64) throw unsendable(path, "is an integer beyond 64 bits; send it as text");
      return value;
    case "function":
    case "symbol":
      throw unsendable(path, `is a ${typeof value}`);
    case "object":
      return value === null ? null : sendableObject(value, path, depth);
  }
}

function sendableObject(value: object, path: string, depth: number): unknown {
  if (depth > MAX_DEPTH) throw unsendable(path, "is nested too deeply, or contains itself");
  if (Array.isArray(value)) return value.map((item, index) => sendable(item, `${path}[${index}]`, depth + 1) ?? null);
  if (ArrayBuffer.isView(value) || value instanceof ExtData) return value;
  if (value instanceof ArrayBuffer) return new Uint8Array(value);
  if (value instanceof Date) {
    if (Number.isNaN(value.getTime())) throw unsendable(path, "is an invalid date");
    return value;
  }
  if ("toJSON" in value && typeof value.toJSON === "function") return sendable((value as { toJSON(): unknown }).toJSON(), path, depth + 1);
  if (!isMap(value)) {
    const kind = value.constructor.name;
    throw unsendable(path, `is of the class ${kind}; send a plain object or an array`);
  }
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => {
      const at = path === "" ? key : `${path}.${key}`;
      if (!key.isWellFormed()) throw unsendable(at, "is a key with half of a surrogate pair");
      return [key, sendable(item, at, depth + 1)];
    }),
  );
}

function unsendable(path: string, why: string): TypeError {
  return new TypeError(`cannot be sent: ${path === "" ? "the value" : path} ${why}`);
}

function asNumbers(value: unknown): unknown {
  if (typeof value === "bigint") {
    const number = Number(value);
    return Number.isSafeInteger(number) ? number : value;
  }
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length; index++) value[index] = asNumbers(value[index]);
  } else if (isMap(value)) {
    for (const key of Object.keys(value)) value[key] = asNumbers(value[key]);
  }
  return value;
}
