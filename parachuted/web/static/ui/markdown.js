/** Markdown: shows a text of the vault or of a model; links to notes and pictures of the vault work. */

import { html, useEffect, useMemo, useRef } from '../vendor/view.js';
import { inAddress, send } from '../lib/api.js';
import { render } from '../lib/markdown.js';
import { noteAddress } from '../lib/router.js';

/**
 * @param {{text: string, base?: string}} props `base`: the note that the text is of, for relative links
 */
export function Markdown({ text, base = '' }) {
  const safe = useMemo(() => ({ __html: render(text) }), [text]);
  const place = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    const cut = new AbortController();
    const made = /** @type {string[]} */ ([]);
    const root = /** @type {HTMLElement} */ (place.current);
    for (const link of root.querySelectorAll('a[data-note]')) pointTo(/** @type {HTMLAnchorElement} */ (link), base);
    for (const box of root.querySelectorAll('pre, table')) box.setAttribute('tabindex', '0');
    for (const picture of root.querySelectorAll('span[data-file]')) showPicture(/** @type {HTMLElement} */ (picture), base, cut.signal, made);
    return () => {
      cut.abort();
      made.forEach(URL.revokeObjectURL);
    };
  }, [safe, base]);
  return html`<div class="markdown" ref=${place} dangerouslySetInnerHTML=${safe}></div>`;
}

/** @param {HTMLAnchorElement} link @param {string} base */
function pointTo(link, base) {
  const target = link.dataset.note ?? '';
  const [path, heading] = target.split('#');
  link.setAttribute('href', noteAddress(path ? path : base, { ...(path ? { from: base } : {}), heading: heading ?? '' }));
  link.title = target;
}

/** @param {HTMLElement} place @param {string} base @param {AbortSignal} signal @param {string[]} made */
async function showPicture(place, base, signal, made) {
  const path = besides(base, place.dataset.file ?? '');
  try {
    const file = await (await send('GET', `/api/files/${inAddress(path)}`, { signal })).blob();
    if (signal.aborted || !/^image\/(png|jpeg|gif|webp)$/.test(file.type)) return;
    const address = URL.createObjectURL(file);
    made.push(address);
    const picture = new Image();
    picture.alt = place.textContent ?? '';
    picture.src = address;
    place.replaceChildren(picture);
  } catch {
    place.classList.add('missing'); // its name stays, which says what is not there
  }
}

/** The path of a file that a note names. @param {string} note @param {string} target */
export function besides(note, target) {
  const parts = target.startsWith('/') ? [] : note.split('/').slice(0, -1);
  for (const part of target.split('/')) {
    if (part === '..') parts.pop();
    else if (part && part !== '.') parts.push(part);
  }
  return parts.join('/');
}
