/** Palette: Ctrl-K, from anywhere to any screen or note, by a few letters. */

import { html, signal, useEffect, useLayoutEffect, useRef, useState } from '../vendor/view.js';
import { get } from '../lib/api.js';
import { sanitised } from '../lib/markdown.js';
import { address, go, noteAddress } from '../lib/router.js';
import { may } from '../lib/session.js';
import { t } from '../lib/strings.js';
import { SCREENS } from '../screens/index.js';
import { Icon } from './icon.js';
import { Problem } from './parts.js';

const PAUSE_MS = 20;
export const isPaletteOpen = signal(false);

addEventListener('keydown', (event) => {
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 'k') {
    event.preventDefault();
    isPaletteOpen.value = !isPaletteOpen.peek();
  }
});

export const Palette = () => (isPaletteOpen.value ? html`<${Opened} />` : null);

function Opened() {
  const [words, setWords] = useState('');
  const [notes, setNotes] = useState(/** @type {any[]} */ ([]));
  const [error, setError] = useState(/** @type {Error | null} */ (null));
  const [at, setAt] = useState(0);
  const place = useRef(/** @type {HTMLDialogElement | null} */ (null));
  const screens = SCREENS.filter((one) => one.name.toLowerCase().includes(words.trim().toLowerCase()));
  const found = [
    ...screens.map((one) => ({ to: address(one.id), icon: one.icon, name: one.name, more: '' })),
    ...notes.map((one) => ({ to: noteAddress(one.path), icon: /** @type {const} */ ('note'), name: one.title || one.path, more: one.path, snippet: one.snippet })),
  ];
  useLayoutEffect(() => {
    const before = /** @type {HTMLElement | null} */ (document.activeElement);
    place.current?.showModal(); // before the next key is typed
    return () => before?.isConnected && before.focus();
  }, []);
  const isSearching = Boolean(words.trim()) && may('vault', 'read');
  useEffect(() => {
    setAt(0);
    setError(null);
    if (!isSearching) return setNotes([]);
    const cut = new AbortController();
    const timer = setTimeout(() => {
      get('/api/search', { q: asBeginning(words), limit: 12 }, cut.signal).then((answer) => setNotes(answer.results), (/** @type {Error} */ failure) => {
        if (!cut.signal.aborted) setError(failure);
      });
    }, PAUSE_MS);
    return () => {
      clearTimeout(timer);
      cut.abort();
    };
  }, [words, isSearching]);
  const close = () => { isPaletteOpen.value = false; };
  const choose = (/** @type {number} */ index) => {
    if (!found[index]) return;
    close();
    go(found[index].to);
  };
  const byKey = (/** @type {KeyboardEvent} */ event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      event.preventDefault();
      setAt(Math.max(0, Math.min(found.length - 1, at + step)));
    } else if (event.key === 'Enter') choose(at);
  };
  return html`
    <dialog class="palette" aria-label=${t.app.search} ref=${place} onClose=${close} onClick=${(/** @type {any} */ event) => event.target === place.current && close()}>
      <input type="text" role="combobox" aria-expanded="true" aria-controls="found" aria-activedescendant=${found[at] ? `found-${at}` : undefined}
        aria-label=${t.app.search} placeholder=${t.app.search} value=${words} onKeyDown=${byKey}
        onInput=${(/** @type {any} */ event) => setWords(event.target.value)} />
      ${error && html`<${Problem} error=${error} />`}
      <ul id="found" role="listbox" aria-label=${t.app.search}>
        ${found.map((one, index) => html`
          <li key=${one.to} id=${`found-${index}`} role="option" aria-selected=${index === at} onClick=${() => choose(index)} onPointerMove=${() => setAt(index)}>
            <${Icon} name=${one.icon} /><span><strong>${one.name}</strong> <span class="soft">${one.more}</span>
            ${one.snippet && html`<span class="snippet soft" dangerouslySetInnerHTML=${{ __html: sanitised(one.snippet) }}></span>`}</span>
          </li>`)}
      </ul>
    </dialog>`;
}

/** What is typed, the last word as the beginning of one. @param {string} words */
const asBeginning = (words) => (/[\p{L}\p{N}]$/u.test(words) ? `${words}*` : words);
