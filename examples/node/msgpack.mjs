/**
 * MessagePack for worker.mjs. Integers beyond 2^53 are BigInt, binary is a Buffer, and other extensions are {ext,
 * data}.
 */

export function encode(value) {
  const parts = [];
  write(value, parts);
  return Buffer.concat(parts);
}

/** Throws if the bytes are not exactly one value. */
export function decode(buffer) {
  const reader = { buffer, at: 0 };
  const value = read(reader);
  if (reader.at !== buffer.length) throw new RangeError("bytes follow the value");
  return value;
}

function write(value, parts) {
  if (value === null || value === undefined) parts.push(Buffer.of(0xc0));
  else if (typeof value === "boolean") parts.push(Buffer.of(value ? 0xc3 : 0xc2));
  else if (typeof value === "number" && !Number.isSafeInteger(value)) {
    const bytes = Buffer.alloc(9, 0xcb);
    bytes.writeDoubleBE(value, 1);
    parts.push(bytes);
  } else if (typeof value === "number" || typeof value === "bigint") writeInteger(BigInt(value), parts);
  else if (typeof value === "string") {
    const bytes = Buffer.from(value);
    writeHead(bytes.length, 0xa0, 32, [0xd9, 0xda, 0xdb], parts);
    parts.push(bytes);
  } else if (Buffer.isBuffer(value)) {
    writeHead(value.length, null, 0, [0xc4, 0xc5, 0xc6], parts);
    parts.push(value);
  } else if (Array.isArray(value)) {
    writeHead(value.length, 0x90, 16, [null, 0xdc, 0xdd], parts);
    for (const member of value) write(member, parts);
  } else if (value instanceof Extension) {
    writeHead(value.data.length, null, 0, [0xc7, 0xc8, 0xc9], parts);
    parts.push(Buffer.of(value.code & 0xff), value.data);
  } else {
    const entries = Object.entries(value);
    writeHead(entries.length, 0x80, 16, [null, 0xde, 0xdf], parts);
    for (const [key, member] of entries) {
      write(key, parts);
      write(member, parts);
    }
  }
}

function writeInteger(value, parts) {
  if (value >= -32n && value < 128n) return parts.push(Buffer.of(Number(value) & 0xff));
  const bytes = Buffer.alloc(9);
  if (value >= 0) {
    bytes[0] = 0xcf;
    bytes.writeBigUInt64BE(value, 1);
  } else {
    bytes[0] = 0xd3;
    bytes.writeBigInt64BE(value, 1);
  }
  parts.push(bytes);
}

function writeHead(length, fixed, limit, [byte, short, long], parts) {
  if (fixed !== null && length < limit) parts.push(Buffer.of(fixed | length));
  else if (byte !== null && length < 256) parts.push(Buffer.of(byte, length));
  else if (length < 65536) parts.push(Buffer.of(short, length >> 8, length & 0xff));
  else {
    const bytes = Buffer.alloc(5, long);
    bytes.writeUInt32BE(length, 1);
    parts.push(bytes);
  }
}

export class Extension {
  constructor(code, data) {
    this.code = code;
    this.data = data;
  }
}

const FIXED_EXT = { 0xd4: 1, 0xd5: 2, 0xd6: 4, 0xd7: 8, 0xd8: 16 };

function read(reader) {
  const tag = take(reader, 1)[0];
  if (tag < 0x80) return tag;
  if (tag < 0x90) return readMap(reader, tag & 0x0f);
  if (tag < 0xa0) return readArray(reader, tag & 0x0f);
  if (tag < 0xc0) return readText(reader, tag & 0x1f);
  if (tag >= 0xe0) return tag - 256;
  if (tag in FIXED_EXT) return readExtension(reader, FIXED_EXT[tag]);
  switch (tag) {
    case 0xc0: return null;
    case 0xc2: return false;
    case 0xc3: return true;
    case 0xc4: return take(reader, size(reader, 1));
    case 0xc5: return take(reader, size(reader, 2));
    case 0xc6: return take(reader, size(reader, 4));
    case 0xc7: return readExtension(reader, size(reader, 1));
    case 0xc8: return readExtension(reader, size(reader, 2));
    case 0xc9: return readExtension(reader, size(reader, 4));
    case 0xca: return take(reader, 4).readFloatBE();
    case 0xcb: return take(reader, 8).readDoubleBE();
    case 0xcc: return size(reader, 1);
    case 0xcd: return size(reader, 2);
    case 0xce: return size(reader, 4);
    case 0xcf: return small(take(reader, 8).readBigUInt64BE());
    case 0xd0: return take(reader, 1).readInt8();
    case 0xd1: return take(reader, 2).readInt16BE();
    case 0xd2: return take(reader, 4).readInt32BE();
    case 0xd3: return small(take(reader, 8).readBigInt64BE());
    case 0xd9: return readText(reader, size(reader, 1));
    case 0xda: return readText(reader, size(reader, 2));
    case 0xdb: return readText(reader, size(reader, 4));
    case 0xdc: return readArray(reader, size(reader, 2));
    case 0xdd: return readArray(reader, size(reader, 4));
    case 0xde: return readMap(reader, size(reader, 2));
    case 0xdf: return readMap(reader, size(reader, 4));
    default: throw new RangeError(`byte ${tag} begins no value`);
  }
}

function take(reader, length) {
  if (reader.at + length > reader.buffer.length) throw new RangeError("the value is cut off");
  reader.at += length;
  return reader.buffer.subarray(reader.at - length, reader.at);
}

const size = (reader, width) => take(reader, width).readUIntBE(0, width);
const small = (value) => (value >= Number.MIN_SAFE_INTEGER && value <= Number.MAX_SAFE_INTEGER ? Number(value) : value);
const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const readText = (reader, length) => utf8.decode(take(reader, length));

function readArray(reader, length) {
  const values = [];
  for (let n = 0; n < length; n++) values.push(read(reader));
  return values;
}

function readMap(reader, length) {
  const values = {};
  for (let n = 0; n < length; n++) {
    const key = read(reader);
    if (typeof key !== "string") throw new TypeError("a map has a key that is not text");
    // Do not use `values[key] =`: the key __proto__ would change the object instead.
    Object.defineProperty(values, key, { value: read(reader), enumerable: true, writable: true, configurable: true });
  }
  return values;
}

function readExtension(reader, length) {
  const code = take(reader, 1).readInt8();
  return new Extension(code, take(reader, length));
}
