/** Find: searches the journal as one types. */

import { html, useEffect, useState } from '../../vendor/view.js';
import { get } from '../../lib/api.js';
import { sanitised } from '../../lib/markdown.js';
import { address, noteAddress } from '../../lib/router.js';
import { may } from '../../lib/session.js';
import { t } from '../../lib/strings.js';
import { dayName } from '../../lib/times.js';

const PAUSE_MS = 120;

export function Find() {
  const [words, setWords] = useState('');
  const [found, setFound] = useState(/** @type {any[] | null} */ (null));
  useEffect(() => {
    if (!words.trim()) return setFound(null);
    const cut = new AbortController();
    const timer = setTimeout(() => {
      get('/api/search', { q: words, in: 'Daily', limit: 12 }, cut.signal).then((told) => setFound(told.results), () => {});
    }, PAUSE_MS);
    return () => {
      clearTimeout(timer);
      cut.abort();
    };
  }, [words]);
  if (!may('vault', 'read')) return null;
  return html`
    <section class="find" role="search">
      <input type="search" aria-label=${t.journal.find} placeholder=${t.journal.find} value=${words}
        onInput=${(/** @type {any} */ event) => setWords(event.target.value)} />
      ${found && html`
        <p class="soft" role="status">${t.journal.found(found.length)}</p>
        <ul class="rows">${found.map((one) => html`<li key=${one.path}><${Hit} hit=${one} /></li>`)}</ul>`}
    </section>`;
}

/** @param {{hit: any}} props */
function Hit({ hit }) {
  const iso = /journals\/(\d{4}-\d\d-\d\d)\.md$/.exec(hit.path)?.[1];
  return html`<a href=${iso ? address('journal', [iso]) : noteAddress(hit.path)}>
    <strong>${iso ? dayName(iso) : hit.title}</strong>
    <span class="soft" dangerouslySetInnerHTML=${{ __html: sanitised((hit.snippet ?? '').replace(/#+ para:\S+ \d\d?:\d\d/g, '')) }}></span>
  </a>`;
}
