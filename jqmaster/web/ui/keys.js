/** Keys that a page listens to. */
import { useEffect, useRef } from "../core/lib.js";

/** @type {{keys: Record<string, () => void>}[]} */
const keyLayers = [];
/** @returns {readonly {keys: Record<string, () => void>}[]} The keys of all components, the newest component's last. */
export const keysInForce = () => keyLayers;

/**
 * @param {Record<string, () => void>} keys
 *   The actions of keys while the component is shown; `g j` means the key g, then the key j.
 */
export function useKeys(keys) {
  const layer = useRef({ keys });
  layer.current.keys = keys;
  useEffect(() => {
    const own = layer.current;
    keyLayers.push(own);
    return () => void keyLayers.splice(keyLayers.indexOf(own), 1);
  }, []);
}
