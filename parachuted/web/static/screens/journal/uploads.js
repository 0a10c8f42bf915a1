/** Uploads: a recording or a picture goes to the daemon in pieces, and goes on where it was after a lost connection. */

import { ApiError, ask, get, post } from '../../lib/api.js';

const PIECE = 512 * 1024;
const WAITS_MS = [1_000, 2_000, 5_000, 10_000];

/**
 * Sends a file; throws what the daemon refuses, and tries again while it cannot be reached.
 * @param {Blob} file @param {'audio' | 'photo'} type @param {string} name
 * @param {{signal: AbortSignal, onProgress: (share: number, isLost: boolean) => void}} options
 * @returns {Promise<string>} the path of the file in the vault
 */
export async function upload(file, type, name, { signal, onProgress }) {
  const { id } = await persist(() => post('/api/daily/uploads', { type, name, size: file.size }), signal, () => onProgress(0, true));
  const place = `/api/daily/uploads/${encodeURIComponent(id)}`;
  let offset = 0;
  let isUnsure = false;
  while (offset < file.size) {
    const piece = file.slice(offset, offset + PIECE);
    try {
      if (isUnsure) offset = (await get(place, {}, signal)).offset;
      else offset = (await ask('PATCH', place, { query: { offset }, body: piece, headers: { 'Content-Type': 'application/octet-stream' }, signal })).offset;
      isUnsure = false;
      onProgress(offset / file.size, false);
    } catch (error) {
      if (signal.aborted || !isLost(error)) throw error;
      isUnsure = true; // whether the piece arrived is asked first
      onProgress(offset / file.size, true);
      await wait(WAITS_MS[0], signal);
    }
  }
  return (await persist(() => post(`${place}/complete`), signal, () => onProgress(1, true))).path;
}

/** @param {unknown} error */
const isLost = (error) => error instanceof ApiError && (error.status === 0 || error.status === 503);

/**
 * @template T
 * @param {() => Promise<T>} act @param {AbortSignal} signal @param {() => void} lost @returns {Promise<T>}
 */
async function persist(act, signal, lost) {
  for (let tried = 0; ; tried += 1) {
    try {
      return await act();
    } catch (error) {
      if (signal.aborted || !isLost(error)) throw error;
      lost();
      await wait(WAITS_MS[Math.min(tried, WAITS_MS.length - 1)], signal);
    }
  }
}

/** @param {number} ms @param {AbortSignal} signal */
const wait = (ms, signal) => new Promise((resolve, reject) => {
  const timer = setTimeout(resolve, ms);
  signal.addEventListener('abort', () => { clearTimeout(timer); reject(signal.reason); }, { once: true });
});
