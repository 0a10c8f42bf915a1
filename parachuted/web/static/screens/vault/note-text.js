/** Note text: the bytes of a note as text, and which they are. */

import { inAddress, send } from '../../lib/api.js';
import { orSeen } from '../../lib/seen.js';

/** A note's text, and the digest that a change of it names. @param {string} path @param {AbortSignal} [signal] @param {boolean} [mayBeOld] as it was seen last, while the daemon is away */
export async function readNote(path, signal, mayBeOld = true) {
  const place = `/api/notes/${inAddress(path)}`;
  return orSeen(place, `${place}?as=raw`, async () => {
    const answer = await send('GET', place, { query: { as: 'raw' }, signal });
    return { text: await answer.text(), hash: (answer.headers.get('ETag') ?? '').replaceAll('"', '') };
  }, mayBeOld);
}
