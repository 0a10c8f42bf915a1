/** Graph: what is related to what, drawn and listed, of a type and on a day. */

import { html, useState } from '../../vendor/view.js';
import { get } from '../../lib/api.js';
import { useEvents } from '../../lib/events.js';
import { useLoad } from '../../lib/load.js';
import { address, go, noteAddress } from '../../lib/router.js';
import { t } from '../../lib/strings.js';
import { Empty, Shown, Tag } from '../../ui/parts.js';
import { VirtualTable } from '../../ui/virtual-list.js';
import { GraphCanvas, kindOf } from './canvas.js';

const COUNTS = [300, 1_000, 3_000, 10_000];

/** @param {{types: any[], query: URLSearchParams}} props */
export function GraphScreen({ types, query }) {
  const [type, on, limit] = [query.get('type') ?? '', query.get('on') ?? '', Number(query.get('most')) || 1_000];
  const [chosen, setChosen] = useState('');
  const names = types.map((one) => one.name);
  const loaded = useLoad((signal) => get('/api/brain/graph', { type, on, limit }, signal), [type, on, limit]);
  useEvents(['brain.entity.'], loaded.reload);
  const change = (/** @type {Record<string, string>} */ next) => go(address('brain', ['graph'], { type, on, most: String(limit), ...next }));
  return html`
    <form class="row filters" onSubmit=${(/** @type {Event} */ event) => event.preventDefault()}>
      <label>${t.brain.type}<select value=${type} onChange=${(/** @type {any} */ event) => change({ type: event.target.value })}>
        <option value="">${t.brain.allTypes}</option>${names.map((one) => html`<option key=${one} value=${one}>${one}</option>`)}</select></label>
      <label>${t.brain.on}<input type="date" value=${on} onChange=${(/** @type {any} */ event) => change({ on: event.target.value })} /></label>
      <label>${t.brain.most}<select value=${String(limit)} onChange=${(/** @type {any} */ event) => change({ most: event.target.value })}>
        ${COUNTS.map((one) => html`<option key=${one} value=${String(one)}>${one.toLocaleString()}</option>`)}</select></label>
    </form>
    <${Shown} of=${loaded}>${(/** @type {any} */ graph) => (graph.nodes.length === 0 ? html`<${Empty}>${t.brain.noGraph}<//>` : html`
      <div class="graph-beside">
        <div class="graph-frame">
          <${GraphCanvas} graph=${graph} types=${names} chosen=${chosen} choose=${setChosen} label=${t.brain.graphLabel(graph.nodes.length, graph.edges.length)} />
          <p class="soft">${t.brain.graphKeys}${graph.more > 0 && ` ${t.brain.more(graph.more)}`}</p>
          <ul class="legend">${names.filter((one) => graph.nodes.some((/** @type {any} */ node) => node.type === one)).map((one) => html`<li key=${one}><i class="dot ${kindOf(names, one).slice(2)}"></i>${one}</li>`)}</ul>
        </div>
        <aside>
          ${chosen && html`<${Chosen} id=${chosen} graph=${graph} choose=${setChosen} />`}
          <h2>${t.brain.linked}</h2>
          <${VirtualTable} count=${graph.nodes.length} height=${36} label=${t.brain.linked} row=${(/** @type {number} */ index) => html`
            <span role="cell"><button type="button" class="plain-button" aria-pressed=${graph.nodes[index].id === chosen} onClick=${() => setChosen(graph.nodes[index].id)}>${graph.nodes[index].name}</button></span>
            <span role="cell" class="soft">${graph.nodes[index].degree}</span>`} />
        </aside>
      </div>`)}
    <//>`;
}

/** The chosen one, and what its links lead to. @param {{id: string, graph: any, choose: (id: string) => void}} props */
function Chosen({ id, graph, choose }) {
  const node = graph.nodes.find((/** @type {any} */ one) => one.id === id);
  if (!node) return null;
  const links = graph.edges.filter((/** @type {any} */ one) => one.source === id || one.target === id).slice(0, 40);
  const nameOf = (/** @type {string} */ other) => graph.nodes.find((/** @type {any} */ one) => one.id === other)?.name ?? other;
  return html`
    <section class="card">
      <h2><a href=${node.type ? address('brain', ['entity', id]) : noteAddress(node.path)}>${node.name}</a> <${Tag}>${node.type}<//></h2>
      <ul class="plain">${links.map((/** @type {any} */ one, /** @type {number} */ index) => {
        const other = one.source === id ? one.target : one.source;
        return html`<li key=${index}>${one.source === id ? '→' : '←'} <button type="button" class="plain-button" onClick=${() => choose(other)}>${nameOf(other)}</button> <span class="soft">${[one.label, t.brain.period(one.since, one.until)].filter(Boolean).join(', ')}</span></li>`;
      })}</ul>
    </section>`;
}
