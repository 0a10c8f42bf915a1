/** Vault: the files as a tree, and the note that was chosen. */

import { html, useState } from '../../vendor/view.js';
import { ask, inAddress } from '../../lib/api.js';
import { go, noteAddress } from '../../lib/router.js';
import { may } from '../../lib/session.js';
import { t } from '../../lib/strings.js';
import { toastProblem } from '../../lib/toasts.js';
import { isPaletteOpen } from '../../ui/palette.js';
import { Button, Empty, IconButton } from '../../ui/parts.js';
import { LinkTarget } from './link-target.js';
import { Note } from './note.js';
import { OtherFile } from './other-file.js';
import { Tree } from './tree.js';

/** @param {import('../index.js').ScreenProps} props */
export default function Vault({ rest, query }) {
  const path = rest.filter(Boolean).join('/');
  const [isNaming, setNaming] = useState(false);
  return html`
    <div class="panes vault ${path ? 'has-choice' : ''}">
      <div class="list">
        <header>
          <h1>${t.vault.title}</h1>
          <${IconButton} icon="search" label=${t.vault.find} onClick=${() => { isPaletteOpen.value = true; }} />
          ${may('vault', 'write') && html`<${IconButton} icon="plus" label=${t.vault.create} aria-expanded=${isNaming} onClick=${() => setNaming(!isNaming)} />`}
          ${isNaming && html`<${NewNote} beside=${path} onDone=${() => setNaming(false)} />`}
        </header>
        <${Tree} chosen=${path} />
      </div>
      <div class="chosen"><${Chosen} key=${path} path=${path} query=${query} /></div>
    </div>`;
}

/** @param {{path: string, query: URLSearchParams}} props */
function Chosen({ path, query }) {
  if (!path) return html`<div class="inside"><${Empty}>${t.vault.nothing}<//></div>`;
  if (query.has('from')) return html`<${LinkTarget} target=${path} source=${query.get('from') ?? ''} heading=${query.get('heading') ?? ''} />`;
  return path.endsWith('.md') ? html`<${Note} path=${path} query=${query} />` : html`<${OtherFile} path=${path} />`;
}

/** @param {{beside: string, onDone: () => void}} props */
function NewNote({ beside, onDone }) {
  const folder = beside.split('/').slice(0, -1).map((part) => `${part}/`).join('');
  const [name, setName] = useState(folder);
  const create = async (/** @type {Event} */ event) => {
    event.preventDefault();
    const path = name.trim().replace(/^\/+/, '').replace(/(\.md)?$/, '.md');
    const title = path.split('/').pop()?.replace(/\.md$/, '');
    try {
      await ask('PUT', `/api/notes/${inAddress(path)}`, { body: `# ${title}\n\n`, headers: { 'Content-Type': 'text/markdown', 'If-None-Match': '*' } });
      onDone();
      go(noteAddress(path, { view: 'edit' }));
    } catch (error) {
      toastProblem(error);
    }
  };
  return html`
    <form class="row" onSubmit=${create}>
      <label class="grow">${t.vault.name}
        <input value=${name} required placeholder="Projects/garden/plan" onInput=${(/** @type {any} */ event) => setName(event.target.value)} />
      </label>
      <${Button} kind="main" type="submit">${t.vault.make}<//>
    </form>`;
}
