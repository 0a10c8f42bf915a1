/** Mentions: names in what is being written that Brain knows, each linked by a click. */

import { html, useEffect, useState } from '../../vendor/view.js';
import { post } from '../../lib/api.js';
import { running } from '../../lib/modules.js';
import { may } from '../../lib/session.js';
import { t } from '../../lib/strings.js';
import { Button } from '../../ui/parts.js';

const PAUSE_MS = 250;
const LEAST = 0.5; // how sure Brain is
const MOST = 6;
const LINK = /\[\[[^\]]*\]\]|\[[^\]]*\]\([^)]*\)|`[^`]*`/g;

/** @typedef {{name: string, text: string, start: number, end: number, confidence: number}} Mention */

/** @param {{text: string, onChange: (text: string) => void}} props */
export function Mentions({ text, onChange }) {
  const [found, setFound] = useState(/** @type {{of: string, mentions: Mention[]}} */ ({ of: '', mentions: [] }));
  const isOn = Boolean(running.value?.has('brain')) && may('brain', 'read');
  useEffect(() => {
    if (!isOn || !text.trim()) return undefined;
    let isOver = false;
    const timer = setTimeout(async () => {
      try {
        const told = await post('/api/brain/suggest', { text });
        if (!isOver) setFound({ of: text, mentions: offered(text, told.suggestions) });
      } catch {
        // What is written can be linked by hand, and the next pause asks again.
      }
    }, PAUSE_MS);
    return () => { isOver = true; clearTimeout(timer); };
  }, [text, isOn]);
  if (found.of !== text || !found.mentions.length) return null;
  const link = (/** @type {Mention} */ one) => onChange(text.slice(0, one.start) + (one.text === one.name ? `[[${one.name}]]` : `[[${one.name}|${one.text}]]`) + text.slice(one.end));
  return html`<div class="row" role="group" aria-label=${t.journal.mentions}>${found.mentions.map((one) => html`<${Button} key=${one.start} icon="plus" onClick=${() => link(one)}>${t.journal.link(one.text, one.name)}<//>`)}</div>`;
}

/** Those that are no links yet, each name once. @param {string} text @param {Mention[]} suggested @returns {Mention[]} */
function offered(text, suggested) {
  const units = unitsOf(text);
  const links = [...text.matchAll(LINK)].map((one) => [one.index, one.index + one[0].length]);
  const names = new Set();
  return suggested
    .map((one) => ({ ...one, start: units[one.start], end: units[one.end] }))
    .filter((one) => one.confidence >= LEAST && text.slice(one.start, one.end) === one.text && !/[[\]|#^]/.test(one.name)
      && !links.some(([start, end]) => one.start < end && one.end > start) && !names.has(one.name) && names.add(one.name))
    .slice(0, MOST);
}

/** Where each character begins for this browser, which counts one beyond 16 bits as two. @param {string} text @returns {number[]} */
function unitsOf(text) {
  const found = [0];
  for (const one of text) found.push(/** @type {number} */ (found.at(-1)) + one.length);
  return found;
}
