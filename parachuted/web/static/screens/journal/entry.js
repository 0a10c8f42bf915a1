/** Entry: one entry of the journal, read and edited in place. */

import { html, useState } from '../../vendor/view.js';
import { ask, get, post } from '../../lib/api.js';
import { may } from '../../lib/session.js';
import { t } from '../../lib/strings.js';
import { clockTime } from '../../lib/times.js';
import { toast, toastProblem } from '../../lib/toasts.js';
import { Markdown } from '../../ui/markdown.js';
import { Button, IconButton, Tag } from '../../ui/parts.js';
import { Mentions } from './mentions.js';

/** @param {{entry: import('./journal.js').JournalEntry, onChange: () => void}} props */
export function Entry({ entry, onChange }) {
  const [isEdited, setEdited] = useState(false);
  const time = clockTime(entry.created_at);
  const title = /^\d\d?:\d\d$/.test(entry.title) ? '' : entry.title;
  const remove = async () => {
    try {
      await ask('DELETE', `/api/daily/entries/${encodeURIComponent(entry.id)}`);
      onChange();
      const run = await runOf(entry.path);
      toast(t.journal.removed, run ? { action: t.journal.undo, act: () => takeBack(run, onChange) } : {});
    } catch (error) {
      toastProblem(error);
    }
  };
  return html`
    <article class="entry">
      <header>
        <time datetime=${entry.created_at}>${time}</time>
        ${title && html`<h3>${title}</h3>`}
        ${entry.metadata?.private && html`<${Tag} kind="wait">${t.journal.private}<//>`}
        ${entry.metadata?.audio && html`<${Tag}>${t.journal.audio}<//>`}
        ${may('daily', 'write') && !isEdited && html`<span class="actions">
          <${IconButton} icon="edit" label=${`${t.journal.edit}, ${time}`} onClick=${() => setEdited(true)} />
          <${IconButton} icon="trash" label=${`${t.journal.remove}, ${time}`} onClick=${remove} />
        </span>`}
      </header>
      ${isEdited
        ? html`<${EntryEditor} entry=${entry} onDone=${() => { setEdited(false); onChange(); }} onCancel=${() => setEdited(false)} />`
        : html`<${Markdown} text=${entry.content} base=${entry.path} />`}
    </article>`;
}

/** @param {{entry: import('./journal.js').JournalEntry, onDone: () => void, onCancel: () => void}} props */
function EntryEditor({ entry, onDone, onCancel }) {
  const [text, setText] = useState(entry.content);
  const save = async () => {
    try {
      await ask('PATCH', `/api/daily/entries/${encodeURIComponent(entry.id)}`, { body: { content: text } });
      onDone();
    } catch (error) {
      toastProblem(error);
    }
  };
  const byKey = (/** @type {KeyboardEvent} */ event) => {
    if (event.key === 'Escape') onCancel();
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) save();
  };
  return html`
    <form class="compose" onSubmit=${(/** @type {Event} */ event) => { event.preventDefault(); save(); }}>
      <textarea aria-label=${t.journal.draft} rows=${Math.min(20, text.split('\n').length + 2)} value=${text} ref=${focus}
        onInput=${(/** @type {any} */ event) => setText(event.target.value)} onKeyDown=${byKey}></textarea>
      <${Mentions} text=${text} onChange=${setText} />
      <div class="row middle">
        <${Button} kind="main" type="submit">${t.journal.save}<//>
        <${Button} onClick=${onCancel}>${t.app.cancel}<//>
      </div>
    </form>`;
}

/** @param {HTMLTextAreaElement | null} place */
function focus(place) {
  if (place && !place.dataset.seen) {
    place.dataset.seen = '1';
    place.focus();
  }
}

/** The run that wrote a file last. @param {string} path @returns {Promise<string | null>} */
async function runOf(path) {
  if (!may('curator', 'read')) return null;
  const told = await get('/api/history', { path, limit: 1 });
  return told.versions[0]?.run ?? null;
}

/** @param {string} run @param {() => void} onDone */
async function takeBack(run, onDone) {
  try {
    await post(`/api/runs/${encodeURIComponent(run)}/undo`);
    toast(t.journal.back);
    onDone();
  } catch (error) {
    toastProblem(error);
  }
}
