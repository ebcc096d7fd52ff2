import assert from "node:assert/strict";
import { test } from "node:test";
import { newId } from "jqmaster-sdk";
import { camelCase, snakeCase } from "#dist/wire/names.js";
import { decode, encode } from "#dist/wire/msgpack.js";
import { MalformedError, fieldsOf, itemsOf } from "#dist/wire/raw.js";

test("values come through unchanged", () => {
  const bytes = new Uint8Array([0, 255]);
  for (const value of [null, true, 0, -1, 127, 128, 2 ** 31, 2 ** 32, -(2 ** 40), 0.5, -1.25e10, "", "ä🙂", [], { a: [{ b: {} }] }, { bytes }]) {
    assert.deepEqual(decode(encode(value)), value);
  }
  const at = new Date("2026-03-01T10:00:00.123Z");
  assert.deepEqual(decode(encode(at)), at);
});

test("integers of 64 bits are bigints where a number would round them, and numbers elsewhere", () => {
  for (const value of [2n ** 53n, -(2n ** 63n), 2n ** 64n - 1n]) assert.equal(decode(encode(value)), value);
  assert.equal(decode(encode(5n)), 5);
  assert.equal(decode(encode(Number.MAX_SAFE_INTEGER)), Number.MAX_SAFE_INTEGER);
  // The number is encoded as an integer, because masters refuse a float for an integer.
  assert.equal(encode(2 ** 40)[0], 0xcf);
});

test("a value that cannot be sent is named with its path", () => {
  const circle: unknown[] = [];
  circle.push(circle);
  const cases: [unknown, RegExp][] = [
    [{ a: [1, () => 1] }, /a\[1\] is a function/],
    [{ a: { b: 2n ** 64n } }, /a\.b is an integer beyond 64 bits/],
    [new Map(), /the value is of the class Map/],
    [{ at: new Date(NaN) }, /at is an invalid date/],
    [{ text: "\ud800" }, /text has half of a surrogate pair/],
    [circle, /contains itself/],
  ];
  for (const [value, message] of cases) assert.throws(() => encode(value), { name: "TypeError", message });
});

test("an undefined field is left out, and toJSON counts", () => {
  assert.deepEqual(decode(encode({ a: undefined, b: new URL("http://x.example/") })), { b: "http://x.example/" });
  assert.deepEqual(decode(encode([undefined, 1])), [null, 1]);
});

test("numbers as keys arrive as their digits, and other keys are refused", () => {
  assert.deepEqual(decode(new Uint8Array([0x81, 0x01, 0x02])), { 1: 2 });
  assert.throws(() => decode(new Uint8Array([0x81, 0x91, 0x01, 0x02])));
  assert.throws(() => decode(new Uint8Array([0x81, 0xa9, ...new TextEncoder().encode("__proto__"), 0x80])));
});

test("the fields of a map and the items of an array are found without decoding them", () => {
  const value = { a: [1, "x".repeat(70_000), { b: null }], c: new Uint8Array(300), d: 1.5, e: -70_000, f: new Date(0) };
  const fields = fieldsOf(encode(value));
  assert.deepEqual([...(fields?.keys() ?? [])], Object.keys(value));
  assert.deepEqual(itemsOf(fields?.get("a") ?? new Uint8Array())?.map(decode), value.a);
  assert.deepEqual(decode(fields?.get("c") ?? new Uint8Array()), value.c);
  assert.equal(fieldsOf(encode([1])), undefined);
  assert.equal(itemsOf(encode({})), undefined);
});

test("bytes that are no MessagePack are told from other values, however much they promise", () => {
  for (const bytes of [[0xc1], [0x81, 0xa1], [], [0xdd, 255, 255, 255, 255], [0xdf, 255, 255, 255, 255], [0xc6, 255, 255, 255, 255], [1, 1]]) {
    assert.throws(() => fieldsOf(new Uint8Array(bytes)), MalformedError);
  }
});

test("IDs are UUIDv7 in the order in which they were made", () => {
  const ids = Array.from({ length: 3_000 }, newId);
  assert.ok(ids.every((id) => /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(id)));
  assert.deepEqual([...ids].sort(), ids);
  assert.equal(new Set(ids).size, ids.length);
});

test("names are camelCase in programs and snake_case on the wire", () => {
  assert.equal(snakeCase("keepResult"), "keep_result");
  assert.equal(camelCase("keep_result"), "keepResult");
});
