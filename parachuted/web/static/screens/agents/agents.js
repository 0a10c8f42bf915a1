/** Agents: which there are, and whether they run here. */

import { html } from '../../vendor/view.js';
import { get } from '../../lib/api.js';
import { useEvents } from '../../lib/events.js';
import { useLoad } from '../../lib/load.js';
import { address } from '../../lib/router.js';
import { t } from '../../lib/strings.js';
import { Empty, Shown, Tag } from '../../ui/parts.js';
import { Agent } from './agent.js';

/** @param {import('../index.js').ScreenProps} props */
export default function Agents({ rest }) {
  const chosen = rest.filter(Boolean).join('/');
  const listed = useLoad((signal) => get('/api/agents', {}, signal), []);
  useEvents(['module.'], () => listed.reload());
  return html`
    <div class="panes agents ${chosen ? 'has-choice' : ''}">
      <div class="list">
        <header><h1>${t.agents.title}</h1></header>
        <${Shown} of=${listed}>${(/** @type {any} */ found) => html`
          <ul class="rows">${found.agents.map((/** @type {any} */ one) => html`<li key=${one.name}><a href=${address('agents', one.name.split('/'))} aria-current=${one.name === chosen}>
            <span class="what"><span>${one.name}</span>${one.runs_here === false && html`<${Tag} kind="wait">${t.agents.notHere}<//>`}</span>
            <span class="soft">${one.description}</span></a></li>`)}</ul>
          ${found.agents.length === 0 && html`<${Empty}>${t.agents.empty}<//>`}`}<//>
      </div>
      <div class="chosen">${chosen ? html`<${Agent} key=${chosen} name=${chosen} />` : html`<div class="inside"><${Empty}>${t.agents.nothing}<//></div>`}</div>
    </div>`;
}
