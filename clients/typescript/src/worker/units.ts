/** Checks the numbers of units that handlers report. */

import { check as checkOptions } from "../checks/options.js";
import { ROOM, type ObservedRoom } from "./context.js";

const MAX_UNITS = 1_000_000_000;
const MAX_RESET_S = 31 * 86_400;

/** Returns the numbers of units. Throws RangeError for a number out of range. */
export function checkedUnits(units: Readonly<Record<string, number>>): Readonly<Record<string, number>> {
  for (const [unit, number] of Object.entries(units)) check(unit, number, MAX_UNITS);
  return units;
}

/** Returns the observed limit. Throws RangeError for a number out of range. */
export function checkedRoom(room: ObservedRoom): ObservedRoom {
  checkOptions(ROOM, room);
  check("remaining", room.remaining, MAX_UNITS);
  check("resetsS", room.resetsS, MAX_RESET_S);
  return room;
}

function check(name: string, number: number, most: number): void {
  // NaN fails this comparison, too.
  if (!(number >= 0 && number <= most)) throw new RangeError(`${name} must be between 0 and ${most}`);
}
