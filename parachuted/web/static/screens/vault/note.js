/** Note: one note, read, edited, and with its past. */

import { html, useEffect, useState } from '../../vendor/view.js';
import { ask, get, inAddress, post } from '../../lib/api.js';
import { useEvents } from '../../lib/events.js';
import { useLoad } from '../../lib/load.js';
import { address, go, noteAddress, replace } from '../../lib/router.js';
import { may } from '../../lib/session.js';
import { t } from '../../lib/strings.js';
import { ago } from '../../lib/times.js';
import { toast, toastProblem } from '../../lib/toasts.js';
import { Icon } from '../../ui/icon.js';
import { Markdown } from '../../ui/markdown.js';
import { IconButton, Loading, Shown } from '../../ui/parts.js';
import { Authors } from './authors.js';
import { Move } from './move.js';
import { readNote } from './note-text.js';
import { Outline, showHeading } from './outline.js';
import { Past } from './past.js';

/** @typedef {'read' | 'edit' | 'past' | 'authors'} View */

/** @param {{path: string, query: URLSearchParams}} props */
export function Note({ path, query }) {
  const [isMoving, setMoving] = useState(false);
  const view = /** @type {View} */ (query.get('view') ?? 'read');
  const views = /** @type {View[]} */ (['read', ...(may('vault', 'write') ? ['edit'] : []), ...(may('curator', 'read') ? ['past', 'authors'] : [])]);
  const remove = async () => {
    try {
      const gone = await ask('DELETE', `/api/notes/${inAddress(path)}`);
      go(address('vault'));
      toast(t.vault.removed(path), { action: t.journal.undo, act: () => bringBack(path, gone.hash) });
    } catch (error) {
      toastProblem(error);
    }
  };
  return html`
    <article class="inside note">
      <header class="row middle">
        <a class="back button" href=${address('vault')}><${Icon} name="left" />${t.vault.title}</a>
        <h1 class="soft grow path">${path}</h1>
        ${may('vault', 'write') && html`<${IconButton} icon="edit" label=${t.vault.move} aria-expanded=${isMoving} onClick=${() => setMoving(!isMoving)} /><${IconButton} icon="trash" label=${t.vault.remove} onClick=${remove} />`}
      </header>
      ${isMoving && html`<${Move} path=${path} onDone=${() => setMoving(false)} />`}
      <div class="tabs" role="navigation" aria-label=${t.vault.views}>
        ${views.map((one) => html`<a key=${one} href=${noteAddress(path, one === 'read' ? {} : { view: one })} aria-current=${one === view ? 'page' : null}>${t.vault.view[one]}</a>`)}
      </div>
      ${view === 'edit' ? html`<${LateEditor} path=${path} />`
        : view === 'past' ? html`<${Past} path=${path} />`
          : view === 'authors' ? html`<${Authors} path=${path} />`
            : html`<${Read} path=${path} heading=${query.get('heading') ?? ''} />`}
    </article>`;
}

/** @param {{path: string, heading: string}} props */
function Read({ path, heading }) {
  const text = useLoad((signal) => readNote(path, signal), [path]);
  const about = useLoad((signal) => get(`/api/notes/${inAddress(path)}`, {}, signal), [path]);
  const links = useLoad((signal) => get(`/api/notes/${inAddress(path)}/backlinks`, {}, signal), [path]);
  useEvents(['file.'], (told) => {
    if (told.event === 'reset' || told.data.path === path) [text, about, links].forEach((one) => one.reload());
    if (told.event === 'file.moved' && told.data.from === path) replace(noteAddress(String(told.data.path)));
  });
  useEffect(() => { if (heading && text.data) showHeading(heading); }, [heading, text.data]);
  return html`<${Shown} of=${text}>${(/** @type {any} */ found) => html`
    <div class="reading">
      ${about.data && html`<${Outline} sections=${about.data.sections} />`}
      <${Markdown} text=${found.text} base=${path} />
      <aside>
        ${about.data && html`<${Properties} of=${about.data} />`}
        ${links.data?.backlinks.length > 0 && html`<section><h2>${t.vault.backlinks}</h2><ul class="rows">
          ${links.data.backlinks.map((/** @type {any} */ one, /** @type {number} */ index) => html`<li key=${index}><a href=${noteAddress(one.source)}>${one.source.replace(/\.md$/, '')}<br /><span class="soft">${one.text}</span></a></li>`)}
        </ul></section>`}
      </aside>
    </div>`}<//>`;
}

/** @param {{of: any}} props */
function Properties({ of }) {
  const pairs = Object.entries(of.frontmatter ?? {});
  return html`
    <section class="properties">
      <h2 class="hidden">${t.vault.properties}</h2>
      <dl>
        <div><dt>${t.vault.modified}</dt><dd>${ago(of.modified)}</dd></div>
        ${pairs.map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${shown(value)}</dd></div>`)}
      </dl>
      ${of.problems?.map((/** @type {any} */ one) => html`<p class="problem">${one.message}</p>`)}
    </section>`;
}

/** @param {any} value */
const shown = (value) => (Array.isArray(value) ? value.join(', ') : typeof value === 'object' && value ? JSON.stringify(value) : String(value));

/** @param {{path: string}} props */
function LateEditor({ path }) {
  const [Editor, setEditor] = useState(/** @type {any} */ (null));
  useEffect(() => { import('./editor.js').then((file) => setEditor(() => file.NoteEditor), toastProblem); }, []);
  return Editor ? html`<${Editor} path=${path} />` : html`<${Loading} />`;
}

/** @param {string} path @param {string} version */
async function bringBack(path, version) {
  try {
    await post('/api/history/restore', { path, version });
    go(noteAddress(path));
  } catch (error) {
    toastProblem(error);
  }
}
