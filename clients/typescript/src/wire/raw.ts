/**
 * The outer structure of MessagePack, without its values. The jobs of a push are decoded one by one, so that a value
 * that JavaScript cannot represent affects no other job.
 */

/** Bytes that are not MessagePack. */
export class MalformedError extends Error {
  override name = "MalformedError";
}

const decoder = new TextDecoder("utf-8", { fatal: true });

/**
 * Returns the fields of a map, each still encoded. Undefined: the value is not a map.
 *
 * @throws MalformedError for bytes that are not exactly one value.
 */
export function fieldsOf(bytes: Uint8Array): Map<string, Uint8Array> | undefined {
  if (endOf(bytes, 0) !== bytes.length) throw new MalformedError("bytes follow the value");
  const [count, start] = headOf(bytes, 0x80, 0xde, 0xdf);
  if (count === undefined) return undefined;
  const fields = new Map<string, Uint8Array>();
  let at = start;
  for (let index = 0; index < count; index++) {
    const keyEnd = endOf(bytes, at);
    const end = endOf(bytes, keyEnd);
    const key = textOf(bytes.subarray(at, keyEnd));
    if (key !== undefined) fields.set(key, bytes.subarray(keyEnd, end));
    at = end;
  }
  return fields;
}

/** Returns the items of an array, each still encoded. Undefined: the value is not an array. */
export function itemsOf(bytes: Uint8Array): Uint8Array[] | undefined {
  const [count, start] = headOf(bytes, 0x90, 0xdc, 0xdd);
  if (count === undefined) return undefined;
  let at = start;
  return Array.from({ length: count }, () => {
    const begin = at;
    at = endOf(bytes, begin);
    return bytes.subarray(begin, at);
  });
}

/** Returns the number of entries of a map or an array, and where the first one begins. */
function headOf(bytes: Uint8Array, short: number, of16: number, of32: number): [number | undefined, number] {
  const head = bytes[0] ?? 0;
  if ((head & 0xf0) === short) return [head & 0x0f, 1];
  if (head === of16) return [unsigned(bytes, 1, 2), 3];
  if (head === of32) return [unsigned(bytes, 1, 4), 5];
  return [undefined, 0];
}

function textOf(bytes: Uint8Array): string | undefined {
  const head = bytes[0] ?? 0;
  const start = (head & 0xe0) === 0xa0 ? 1 : { 0xd9: 2, 0xda: 3, 0xdb: 5 }[head];
  if (start === undefined) return undefined;
  try {
    return decoder.decode(bytes.subarray(start));
  } catch {
    return undefined;
  }
}

/** Number of bytes after the head, for values of a fixed size. */
const FIXED: Readonly<Record<number, number>> = {
  0xc0: 0, 0xc2: 0, 0xc3: 0, 0xca: 4, 0xcb: 8, 0xcc: 1, 0xcd: 2, 0xce: 4, 0xcf: 8, 0xd0: 1, 0xd1: 2, 0xd2: 4, 0xd3: 8,
  0xd4: 2, 0xd5: 3, 0xd6: 5, 0xd7: 9, 0xd8: 17,
};
/** For values of variable size: number of bytes of the length, and of further bytes that the length does not count. */
const SIZED: Readonly<Record<number, readonly [number, number]>> = {
  0xc4: [1, 0], 0xc5: [2, 0], 0xc6: [4, 0], 0xd9: [1, 0], 0xda: [2, 0], 0xdb: [4, 0], 0xc7: [1, 1], 0xc8: [2, 1], 0xc9: [4, 1],
};
/** For arrays and maps: number of bytes of the length, and number of values in each entry. */
const NESTED: Readonly<Record<number, readonly [number, number]>> = {
  0xdc: [2, 1], 0xdd: [4, 1], 0xde: [2, 2], 0xdf: [4, 2],
};

/**
 * Returns where the value that begins at `start` ends. Each value has at least one byte, so a false count cannot make
 * the loop long.
 */
function endOf(bytes: Uint8Array, start: number): number {
  let at = start;
  for (let left = 1; left > 0; left--) {
    const head = bytes[at];
    if (head === undefined) throw new MalformedError("the value is cut off");
    at += 1;
    if (head < 0x80 || head >= 0xe0) continue;
    const [fixed, sized, nested] = [FIXED[head], SIZED[head], NESTED[head]];
    if (head < 0x90) left += 2 * (head & 0x0f);
    else if (head < 0xa0) left += head & 0x0f;
    else if (head < 0xc0) at += head & 0x1f;
    else if (fixed !== undefined) at += fixed;
    else if (sized !== undefined) at += sized[0] + unsigned(bytes, at, sized[0]) + sized[1];
    else if (nested !== undefined) {
      left += nested[1] * unsigned(bytes, at, nested[0]);
      at += nested[0];
    } else throw new MalformedError("a byte that begins no value");
  }
  if (at > bytes.length) throw new MalformedError("the value is cut off");
  return at;
}

function unsigned(bytes: Uint8Array, at: number, size: number): number {
  if (at + size > bytes.length) throw new MalformedError("the value is cut off");
  let value = 0;
  for (let index = 0; index < size; index++) value = value * 256 + (bytes[at + index] ?? 0);
  return value;
}
