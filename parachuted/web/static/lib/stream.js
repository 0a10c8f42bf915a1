/** Stream: reads server-sent events of an answer, as they come. */

import { ApiError, straight } from './api.js';

/**
 * @typedef {{id: string, event: string, data: string}} Message
 * @typedef {{signal?: AbortSignal, silentMs?: number, onOpen?: () => void}} Options
 */

/**
 * The messages of a stream until it ends. Throws ApiError, or when nothing comes for `silentMs`.
 * @param {string} address
 * @param {RequestInit} request
 * @param {Options} [options]
 * @returns {AsyncGenerator<Message>}
 */
export async function* follow(address, request, { signal, silentMs = 0, onOpen } = {}) {
  const cut = new AbortController();
  signal?.addEventListener('abort', () => cut.abort());
  let timer = 0;
  const alive = () => {
    clearTimeout(timer);
    if (silentMs) timer = setTimeout(() => cut.abort(), silentMs);
  };
  alive();
  try {
    const response = await fetch(straight(address), { ...request, signal: cut.signal, credentials: 'omit', cache: 'no-store' });
    if (!response.ok || !response.body) {
      const answer = await response.json().catch(() => null);
      throw new ApiError(response.status, answer?.message ?? `The daemon answered ${response.status}.`, answer);
    }
    onOpen?.();
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = '';
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      alive();
      const blocks = (rest + value).split('\n\n');
      rest = blocks.pop() ?? '';
      for (const block of blocks) {
        const message = parsed(block);
        if (message) yield message;
      }
    }
  } finally {
    clearTimeout(timer);
    cut.abort();
  }
}

/** @param {string} block @returns {Message | null} null: a comment */
function parsed(block) {
  const message = { id: '', event: '', data: '' };
  for (const line of block.split('\n')) {
    const found = /^(id|event|data): ?(.*)$/.exec(line);
    if (found?.[1] === 'data') message.data += message.data ? `\n${found[2]}` : found[2];
    else if (found) message[/** @type {'id' | 'event'} */ (found[1])] = found[2];
  }
  return message.data || message.event ? message : null;
}
