/** Load: what a screen shows, asked for when it appears and again when told. */

import { useCallback, useEffect, useLayoutEffect, useRef, useState } from '../vendor/view.js';

/**
 * @template T
 * @typedef {{data: T | undefined, error: Error | null, reload: () => void, set: (data: T) => void}} Loaded
 */

/**
 * What `ask` answers, asked again when one of `on` changes or `reload` is called. While it is asked
 * again the old answer stays.
 * @template T
 * @param {(signal: AbortSignal) => Promise<T>} ask
 * @param {any[]} on
 * @returns {Loaded<T>}
 */
export function useLoad(ask, on) {
  const [shown, setShown] = useState(/** @type {{data?: T, error: Error | null, of?: string}} */ ({ error: null }));
  const [count, setCount] = useState(0);
  const of = JSON.stringify(on);
  const timer = useRef(0);
  useLayoutEffect(() => { // not after the next frame: the answer is what that frame waits for
    const cut = new AbortController();
    ask(cut.signal).then(
      (data) => { if (!cut.signal.aborted) setShown({ data, error: null, of }); },
      (error) => { if (!cut.signal.aborted) setShown((before) => ({ data: before.of === of ? before.data : undefined, error, of })); },
    );
    return () => cut.abort();
  }, [of, count]);
  const reload = useCallback(() => {
    clearTimeout(timer.current);
    timer.current = setTimeout(() => setCount((before) => before + 1), 60);
  }, []);
  const set = useCallback((/** @type {T} */ data) => setShown({ data, error: null, of }), [of]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const isOld = shown.of !== undefined && shown.of !== of;
  return { data: isOld ? undefined : shown.data, error: isOld ? null : shown.error, reload, set };
}
