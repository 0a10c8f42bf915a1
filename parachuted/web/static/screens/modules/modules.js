/** Modules: those that are installed and those that could be, and the one that was chosen. */

import { html, useState } from '../../vendor/view.js';
import { get, post } from '../../lib/api.js';
import { useEvents } from '../../lib/events.js';
import { useLoad } from '../../lib/load.js';
import { address, go } from '../../lib/router.js';
import { t } from '../../lib/strings.js';
import { toastProblem } from '../../lib/toasts.js';
import { Button, Empty, Shown, Tag } from '../../ui/parts.js';
import { Module, Offered, StateTag } from './module.js';

/** @param {import('../index.js').ScreenProps} props */
export default function Modules({ rest }) {
  const [chosen = '', tab = '', trust = ''] = rest;
  const listed = useLoad((signal) => get('/api/modules', {}, signal), []);
  useEvents(['module.'], listed.reload);
  return html`
    <div class="panes modules ${chosen ? 'has-choice' : ''}">
      <div class="list">
        <header><h1>${t.modules.title}</h1></header>
        <${Shown} of=${listed}>${(/** @type {any} */ found) => html`
          <ul class="rows" aria-label=${t.modules.installed}>${found.modules.map((/** @type {any} */ one) => html`<li key=${one.name}><a href=${address('modules', [one.name])} aria-current=${one.name === chosen}>
            <span class="what"><span>${one.name}</span>${one.state === 'changed' && html`<${Tag} kind="wait">${one.notes[0]}<//>`}<${StateTag} of=${one} /></span>
            <span class="soft">${one.description || one.source}</span></a></li>`)}</ul>
          ${found.modules.length === 0 && html`<${Empty}>${t.modules.empty}<//>`}
          ${found.available.length > 0 && html`<h2 class="in-list">${t.modules.available}</h2>
            <ul class="rows">${found.available.map((/** @type {any} */ one) => html`<li key=${one.name}><a href=${address('modules', [one.name])} aria-current=${one.name === chosen}>
              <span class="what"><span>${one.name}</span></span><span class="soft">${one.description}</span></a></li>`)}</ul>`}
          <${Install} onDone=${listed.reload} />`}
        <//>
      </div>
      <div class="chosen"><${Shown} of=${listed}>${(/** @type {any} */ found) => {
        const module = found.modules.find((/** @type {any} */ one) => one.name === chosen);
        const offered = found.available.find((/** @type {any} */ one) => one.name === chosen);
        if (module) return html`<${Module} key=${chosen} of=${module} tab=${tab} trust=${trust} onChange=${listed.reload} />`;
        return offered ? html`<${Offered} key=${chosen} of=${offered} onDone=${listed.reload} />` : html`<div class="inside"><${Empty}>${t.modules.nothing}<//></div>`;
      }}<//></div>
    </div>`;
}

/** @param {{onDone: () => void}} props */
function Install({ onDone }) {
  const [source, setSource] = useState('');
  const [trust, setTrust] = useState('untrusted');
  const install = async (/** @type {Event} */ event) => {
    event.preventDefault();
    try {
      const told = await post('/api/modules/install', { source: source.trim(), trust });
      setSource('');
      onDone();
      go(address('modules', [told.module.name, 'consent', trust]));
    } catch (error) {
      toastProblem(error);
    }
  };
  return html`
    <form class="in-list form" onSubmit=${install}>
      <label>${t.modules.from}<input required value=${source} placeholder="github://someone/garden" onInput=${(/** @type {any} */ event) => setSource(event.target.value)} /></label>
      <label>${t.consent.trust}<select value=${trust} onChange=${(/** @type {any} */ event) => setTrust(event.target.value)}>${Object.entries(t.consent.trusts).map(([value, text]) => html`<option key=${value} value=${value}>${text}</option>`)}</select></label>
      <p class="soft">${t.modules.fromWhy}</p>
      <p><${Button} type="submit">${t.modules.get}<//></p>
    </form>`;
}
