/** Outline: the headings of a note that is read; each leads there. */

import { html } from '../../vendor/view.js';
import { t } from '../../lib/strings.js';

/** The headings as they are shown. */
const headings = () => [...document.querySelectorAll('.note .reading > .markdown :is(h1, h2, h3, h4, h5, h6)')];

/** Scrolls to a heading. @param {string} title @param {number} [turn] which of those with that title, from 0 */
export function showHeading(title, turn = 0) {
  headings().filter((one) => one.textContent === title)[turn]?.scrollIntoView();
}

/** @param {{sections: {title: string, level: number}[]}} props */
export function Outline({ sections }) {
  if (sections.length < 2) return null;
  const least = Math.min(...sections.map((one) => one.level));
  const seen = /** @type {Map<string, number>} */ (new Map());
  const turns = sections.map(({ title }) => {
    const turn = seen.get(title) ?? 0;
    seen.set(title, turn + 1);
    return turn;
  });
  return html`
    <nav class="outline" aria-label=${t.vault.outline}><h2>${t.vault.outline}</h2><ul class="plain">${sections.map((one, at) => html`
      <li key=${at} class=${`in-${Math.min(one.level - least, 3)}`}><button type="button" onClick=${() => showHeading(plain(one.title), turns[at])}>${plain(one.title)}</button></li>`)}</ul></nav>`;
}

/** A title without its marks, as it is shown. @param {string} title */
const plain = (title) => title.replace(/!?\[\[(?:[^\]|]*\|)?([^\]]*)\]\]/g, '$1').replace(/\[([^\]]*)\]\([^)]*\)/g, '$1').replace(/(\*\*|\*|__|`)(.+?)\1/g, '$2');
