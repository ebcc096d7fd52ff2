/** The session of the user: login, logout, and a new login over the page. */
import { Problem, fetchSession, logOut, may, whenUnauthorized } from "../core/api.js";
import { useEffect, useRef, useState } from "../core/lib.js";
import { start, stop } from "../core/live.js";
import { loadNamespaces } from "../namespaces/known.js";

/** @typedef {import("../core/api.js").Session} Session */

const TYPING_MS = 1000;
const RETRY_MS = 2000;

let lastKeyMs = 0;
addEventListener("keydown", () => (lastKeyMs = Date.now()), true);

/**
 * The session of this browser.
 * @returns {{session: Session | null, problem: Problem | null, isIn: boolean, offered: Session | null, refresh: () => Promise<void>,
 *   enter: (now: Session) => void, enterAgain: (now: Session) => void, decline: () => void, leave: () => Promise<void>}}
 *   `problem`: why the session is unknown. `offered`: if the session has ended while a page was open, the ways to log in
 *   again, shown over the page; `enterAgain` and `decline` answer them.
 */
export function useSession() {
  const [session, setSession] = useState(/** @type {Session | null} */ (null));
  const [problem, setProblem] = useState(/** @type {Problem | null} */ (null));
  const [isLoginWanted, setLoginWanted] = useState(false);
  const enter = (/** @type {Session} */ now) => {
    setSession(now);
    setLoginWanted(now.role === null && now.scopes.length === 0);
  };
  const refresh = async () => {
    try {
      enter(await fetchSession());
      setProblem(null);
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      setProblem(error);
    }
  };
  const isIn = session !== null && !isLoginWanted;
  const again = useLoginAgain(isIn, () => {
    setLoginWanted(true);
    // Load the session again: the ways to log in may have changed, for example when the first user was added.
    void refresh();
  });
  useEffect(() => void refresh(), []);
  useEffect(() => {
    // While no master answers, it is unknown who is logged in. Ask again until a master answers.
    if (problem?.status !== 0) return undefined;
    const timer = setInterval(refresh, RETRY_MS);
    return () => clearInterval(timer);
  }, [problem]);
  useEffect(() => {
    if (isIn && may(session, "read")) {
      start();
      if (session?.has_namespaces) void loadNamespaces();
    }
  }, [isIn, session]);
  const enterAgain = (/** @type {Session} */ now) => {
    again.end();
    setSession(now);
  };
  const decline = () => {
    again.end();
    setSession(again.offered);
    setLoginWanted(true);
  };
  const leave = () => again.prevented(() => logOutHere(refresh));
  return { session, problem, isIn, offered: again.offered, refresh, enter, enterAgain, decline, leave };
}

/**
 * Offer the login over the page when a call of the page finds that the session has ended.
 * @param {boolean} isIn
 * @param {() => void} onOut Called instead of this offer if nobody was logged in.
 */
function useLoginAgain(isIn, onOut) {
  const [offered, setOffered] = useState(/** @type {Session | null} */ (null));
  const wasIn = useRef(isIn);
  wasIn.current = isIn;
  const isAsking = useRef(false);
  const ask = (/** @type {Session} */ now) => {
    // Wait until the user stops typing, so that no key goes into the dialog.
    if (Date.now() - lastKeyMs < TYPING_MS) setTimeout(() => ask(now), TYPING_MS);
    else setOffered(now);
  };
  useEffect(() => {
    whenUnauthorized(() => {
      stop();
      if (!wasIn.current) onOut();
      else if (!isAsking.current) {
        isAsking.current = true;
        fetchSession().then(ask, () => {
          isAsking.current = false;
        });
      }
    });
  }, []);
  return {
    offered,
    end: () => {
      isAsking.current = false;
      setOffered(null);
    },
    /** @param {() => Promise<unknown>} act The function to run. Calls of the API that are refused meanwhile do not open the login. */
    prevented: async (act) => {
      isAsking.current = true;
      if (await act()) isAsking.current = false;
    },
  };
}

/** @param {() => Promise<void>} refresh @returns {Promise<boolean>} Whether this page stays open. */
async function logOutHere(refresh) {
  try {
    const elsewhere = await logOut();
    if (elsewhere) {
      stop();
      location.assign(elsewhere);
      return false;
    }
  } catch {
    /* Ignore the failure: this page treats the session as over anyway. */
  }
  stop();
  await refresh();
  return true;
}
