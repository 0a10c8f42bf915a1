/** Chat: conversations, and the one that was chosen. The module Chat keeps them. */

import { html, useState } from '../../vendor/view.js';
import { get } from '../../lib/api.js';
import { useEvents } from '../../lib/events.js';
import { useLoad } from '../../lib/load.js';
import { address } from '../../lib/router.js';
import { may } from '../../lib/session.js';
import { t } from '../../lib/strings.js';
import { ago } from '../../lib/times.js';
import { Icon } from '../../ui/icon.js';
import { Button, Empty, Shown } from '../../ui/parts.js';
import { Conversation } from './conversation.js';

const PAGE = 60;

/** @param {import('../index.js').ScreenProps} props */
export default function Chat({ rest }) {
  const chosen = rest[0] ?? '';
  const [words, setWords] = useState('');
  const [isArchive, setArchive] = useState(false);
  const [count, setCount] = useState(PAGE);
  const listed = useLoad((signal) => get('/api/chat', { limit: count, search: words, archived: isArchive }, signal), [count, words, isArchive]);
  useEvents(['chat.', 'file.'], (told) => { if (!told.event.startsWith('file.') || String(told.data.path).startsWith('Chat/')) listed.reload(); });
  return html`
    <div class="panes chat ${chosen ? 'has-choice' : ''}">
      <div class="list">
        <header>
          <h1>${t.chat.title}</h1>
          ${may('chat', 'write') && html`<a class="button main" href=${address('chat', ['new'])}><${Icon} name="plus" />${t.chat.begin}</a>`}
          <input type="search" aria-label=${t.chat.find} placeholder=${t.chat.find} value=${words} onInput=${(/** @type {any} */ event) => setWords(event.target.value)} />
        </header>
        <${Shown} of=${listed}>${(/** @type {any} */ found) => html`
          <ul class="rows">${found.sessions.map((/** @type {any} */ one) => html`<li key=${one.id}><${Row} session=${one} isChosen=${one.id === chosen} /></li>`)}</ul>
          ${found.sessions.length === 0 && html`<${Empty}>${words || isArchive ? t.chat.none : t.chat.empty}<//>`}
          ${found.next && html`<${Button} class="more" onClick=${() => setCount(count + PAGE)}>${t.chat.more}<//>`}
          <${Button} class="more" onClick=${() => setArchive(!isArchive)}>${isArchive ? t.chat.showOpen : t.chat.showArchive}<//>`}
        <//>
      </div>
      <div class="chosen">${chosen ? html`<${Conversation} key=${chosen} id=${chosen === 'new' ? '' : chosen} />` : html`<div class="inside"><${Empty}>${t.chat.nothing}<//></div>`}</div>
    </div>`;
}

/** @param {{session: any, isChosen: boolean}} props */
const Row = ({ session, isChosen }) => html`
  <a href=${address('chat', [session.id])} aria-current=${isChosen}>
    <span class="what"><span>${session.title || t.chat.untitled}</span></span>
    <span class="soft">${ago(session.updatedAt ?? session.lastAccessed)}${session.summary ? ` · ${session.summary.slice(0, 90)}` : ''}</span>
  </a>`;
