/** Note text: the bytes of a note as text, and which they are. */

import { inAddress, send } from '../../lib/api.js';

/** A note's text, and the digest that a change of it names. @param {string} path @param {AbortSignal} [signal] */
export async function readNote(path, signal) {
  const answer = await send('GET', `/api/notes/${inAddress(path)}`, { query: { as: 'raw' }, signal });
  return { text: await answer.text(), hash: (answer.headers.get('ETag') ?? '').replaceAll('"', '') };
}
