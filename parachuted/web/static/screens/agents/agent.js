/** Agent: exactly what one may do, and what it could reach if it ran now. */

import { html } from '../../vendor/view.js';
import { ApiError, get } from '../../lib/api.js';
import { useLoad } from '../../lib/load.js';
import { address, noteAddress } from '../../lib/router.js';
import { may } from '../../lib/session.js';
import { t } from '../../lib/strings.js';
import { Facts } from '../../ui/facts.js';
import { Icon } from '../../ui/icon.js';
import { Shown, Tag } from '../../ui/parts.js';
import { Words } from '../../ui/words.js';

/** @param {{name: string}} props */
export function Agent({ name }) {
  const found = useLoad((signal) => explained(name, signal), [name]);
  return html`<article class="inside"><${Shown} of=${found}>${(/** @type {any} */ told) => {
    const of = told.agent;
    return html`
      <header class="row middle"><a class="back button" href=${address('agents')}><${Icon} name="left" />${t.agents.title}</a>
        <h1 class="grow small">${of.name}</h1>${of.runs_here !== undefined && html`<${Tag} kind=${of.runs_here ? 'good' : 'wait'}>${of.runs_here ? t.agents.here : t.agents.notHere}<//>`}</header>
      <p>${of.description}</p>
      ${of.problem && html`<p class="notice-in"><${Words} text=${of.problem} /></p>`}
      ${of.permissions && html`<h2>${t.agents.may}</h2><${Facts} of=${factsOf(of)} />`}
      ${told.files && html`<h2>${t.agents.files}</h2><p>${t.agents.reaches(told.files)}</p>
        <ul class="simple columns">${told.files.first.map((/** @type {string} */ one) => html`<li key=${one}><a href=${noteAddress(one)}>${one}</a></li>`)}</ul>`}
      ${told.always_refused && html`<h2>${t.agents.refused}</h2><ul>${told.always_refused.map((/** @type {string} */ one) => html`<li key=${one}>${one}</li>`)}</ul>
        <h2>${t.agents.after}</h2><p>${told.after_strangers_text}</p>`}
      ${of.system_prompt && html`<details><summary>${t.agents.prompt}</summary><pre class="command" tabindex="0">${of.system_prompt}</pre></details>`}`;
  }}<//></article>`;
}

/** All of it, for who may administer; an agent that is a note has no explanation. @param {string} name @param {AbortSignal} signal */
async function explained(name, signal) {
  if (may('system', 'admin')) {
    try {
      return await get('/api/sandbox/explain', { agent: name }, signal);
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 404) throw error;
    }
  }
  return { agent: await get(`/api/agents/${name.split('/').map(encodeURIComponent).join('/')}`, {}, signal) };
}

/** @param {any} of @returns {[string, any][]} */
function factsOf(of) {
  const { permissions: may } = of;
  const limits = of.constraints ?? {};
  const within = (/** @type {string[][]} */ lists) => (lists.length ? lists.map((one) => one.join(', ') || t.agents.nothingAt).join(t.agents.and) : t.agents.nothingAt);
  const some = (/** @type {any} */ value) => (value === true ? t.agents.any : !value || !value.length ? t.agents.nothingAt : Array.isArray(value) ? value.join(', ') : value);
  return [
    [t.agents.facts.read, within(may.read)], [t.agents.facts.write, within(may.write)], [t.agents.facts.lane, may.lane.length ? within(may.lane) : ''],
    [t.agents.facts.outside, may.outside], [t.agents.facts.bash, some(may.bash)], [t.agents.facts.network, some(may.network)],
    [t.agents.facts.tools, of.tools.join(', ')], [t.agents.facts.begins, of.begins], [t.agents.facts.model, of.model],
    [t.agents.facts.time, limits.timeout_s && t.agents.seconds(limits.timeout_s)], [t.agents.facts.turns, limits.max_turns && t.agents.most(limits.max_turns)],
    [t.agents.facts.cost, limits.max_cost_usd && t.agents.dollars(limits.max_cost_usd)], [t.agents.facts.source, of.source],
  ];
}
