/**
 * Events: one stream of what happens, for all screens. It is opened again when it breaks, from where
 * it was, and when the daemon has forgotten that, every screen loads again (`reset`).
 *
 * Not EventSource, which can send no key.
 */

import { effect, signal, useEffect, useRef } from '../vendor/view.js';
import { keyHeaders } from './api.js';
import { isOpen, look } from './session.js';
import { follow } from './stream.js';

const SILENT_MS = 40_000; // the daemon says something every 15 s
const WAITS_MS = [500, 1_000, 2_000, 5_000, 10_000];

/** `connecting` at first, `live`, or `lost` until it is back. */
export const connection = signal(/** @type {'connecting' | 'live' | 'lost'} */ ('connecting'));

/**
 * @typedef {{event: string, timestamp: string, module: string, data: Record<string, any>}} Told
 * @typedef {(told: Told) => void} Listener
 */
/** @type {Set<Listener>} */
const listeners = new Set();
let last = '';
/** @type {AbortController | null} */
let open = null;
/** @type {(() => void) | null} */
let hurry = null;

/**
 * Calls the listener for every event whose name begins so; and for `reset`.
 * @param {string[]} names such as `file.` or `run.finished`
 * @param {Listener} listener
 * @returns {() => void} ends it
 */
export function listen(names, listener) {
  /** @type {Listener} */
  const chosen = (told) => {
    if (told.event === 'reset' || names.some((name) => told.event.startsWith(name))) listener(told);
  };
  listeners.add(chosen);
  return () => listeners.delete(chosen);
}

/**
 * The same while a component is shown.
 * @param {string[]} names
 * @param {Listener} listener
 */
export function useEvents(names, listener) {
  const latest = useRef(listener);
  latest.current = listener;
  useEffect(() => listen(names, (told) => latest.current(told)), [names.join()]);
}

/** @param {Told} told */
function tell(told) {
  for (const listener of [...listeners]) listener(told);
}

async function run(/** @type {AbortSignal} */ signal) {
  for (let tried = 0; !signal.aborted; tried += 1) {
    const begun = Date.now();
    try {
      await stream(signal);
    } catch {
      // It is opened again below, whatever ended it.
    }
    if (signal.aborted) return;
    connection.value = 'lost';
    if (Date.now() - begun > 10_000) tried = 0;
    await wait(WAITS_MS[Math.min(tried, WAITS_MS.length - 1)]);
    await look();
  }
}

/** @param {AbortSignal} ended */
async function stream(ended) {
  const headers = { ...keyHeaders(), ...(last ? { 'Last-Event-ID': last } : {}) };
  const isBack = connection.peek() === 'lost';
  for await (const message of follow('/api/events', { headers }, { signal: ended, silentMs: SILENT_MS, onOpen: opened })) {
    if (message.id) last = message.id;
    if (message.event === 'reset') tell({ event: 'reset', timestamp: '', module: 'core', data: {} });
    else if (message.data) tell(JSON.parse(message.data));
  }
  function opened() {
    connection.value = 'live';
    if (isBack && !last) tell({ event: 'reset', timestamp: '', module: 'core', data: {} });
  }
}

/** @param {number} ms */
const wait = (ms) => new Promise((resolve) => {
  hurry = () => resolve(undefined);
  setTimeout(hurry, ms);
});

effect(() => {
  open?.abort();
  open = null;
  if (isOpen.value) {
    open = new AbortController();
    run(open.signal);
  }
});
addEventListener('online', () => hurry?.());
addEventListener('visibilitychange', () => { if (document.visibilityState === 'visible') hurry?.(); });
