/** Bodies that are not verified yet. Anybody who reaches the port can send one. */

/** Maximum number of bytes of all such bodies together. */
const MAX_UNVERIFIED_BYTES = 64 * 1024 * 1024;

let unverifiedBytes = 0;

/** A body is refused because too many bodies are being read. */
export class OverloadedError extends Error {
  override name = "OverloadedError";
}

/**
 * Returns a body; undefined if it has more than `maxBytes`.
 *
 * @throws OverloadedError, or the error of reading the pieces.
 */
export async function bodyOf(pieces: AsyncIterable<Uint8Array>, declared: number, maxBytes: number): Promise<Uint8Array | undefined> {
  if (declared > maxBytes) return undefined;
  const read: Uint8Array[] = [];
  let size = 0;
  try {
    for await (const piece of pieces) {
      size += piece.length;
      unverifiedBytes += piece.length;
      if (size > maxBytes) return undefined;
      if (unverifiedBytes > MAX_UNVERIFIED_BYTES) throw new OverloadedError();
      read.push(piece);
    }
    return read.length === 1 && read[0] !== undefined ? read[0] : Buffer.concat(read);
  } finally {
    unverifiedBytes -= size;
  }
}
