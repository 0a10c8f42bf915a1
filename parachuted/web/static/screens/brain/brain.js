/** Brain: what is known: entities, their graph, which may be the same, and the types. The module Brain keeps it. */

import { html, useState } from '../../vendor/view.js';
import { get } from '../../lib/api.js';
import { useEvents } from '../../lib/events.js';
import { useLoad } from '../../lib/load.js';
import { address, go } from '../../lib/router.js';
import { may } from '../../lib/session.js';
import { t } from '../../lib/strings.js';
import { Button, Empty, Loading, Problem, Shown, Tag } from '../../ui/parts.js';
import { usePages, VirtualTable } from '../../ui/virtual-list.js';
import { EntityScreen } from './entity.js';
import { useLater } from '../../ui/later.js';
import { NewEntity } from './new-entity.js';
import { Twins } from './twins.js';
import { TypesScreen } from './types.js';

const TABS = /** @type {const} */ (['entities', 'graph', 'twins', 'types']);
const ROW = 44;

/** @param {import('../index.js').ScreenProps} props */
export default function Brain({ rest, query }) {
  const types = useLoad((signal) => get('/api/brain/types', {}, signal), []);
  useEvents(['brain.entity.', 'file.'], (told) => { if (!told.event.startsWith('file.') || told.data.path === 'Brain/types.yaml') types.reload(); });
  const at = rest[0] || 'entities';
  return html`
    <div class="page brain">
      <header><h1>${t.brain.title}</h1></header>
      <nav class="tabs" aria-label=${t.brain.views}>${TABS.map((one) => html`<a key=${one} href=${address('brain', one === 'entities' ? [] : [one])} aria-current=${one === at ? 'page' : null}>${t.brain.tabs[one]}</a>`)}</nav>
      <${Shown} of=${types}>${(/** @type {any[]} */ found) => (at === 'types' ? html`<${TypesScreen} types=${found} chosen=${rest[1] ?? ''} onChange=${types.reload} />`
        : at === 'graph' ? html`<${Graph} types=${found} query=${query} />`
          : at === 'twins' ? html`<${Twins} />`
            : at === 'entity' ? html`<${EntityScreen} key=${rest.slice(1).join('/')} id=${rest.slice(1).join('/')} types=${found} />`
              : html`<${Entities} types=${found} type=${query.get('type') ?? ''} />`)}<//>
    </div>`;
}

/** @param {{types: any[], query: URLSearchParams}} props */
function Graph({ types, query }) {
  const [file, error] = useLater(() => import('./graph.js'));
  if (error) return html`<${Problem} error=${error} />`;
  return file ? html`<${file.GraphScreen} types=${types} query=${query} />` : html`<${Loading} />`;
}

/** @param {{types: any[], type: string}} props */
function Entities({ types, type }) {
  const [words, setWords] = useState('');
  const [isNew, setNew] = useState(false);
  const paged = usePages(async (offset, limit, signal) => {
    const told = await get('/api/brain/entities', { type, q: words, offset, limit }, signal);
    return { rows: told.results, count: told.count };
  }, [type, words]);
  useEvents(['brain.entity.'], paged.reload);
  const whole = types.reduce((sum, one) => sum + one.entity_count, 0);
  return html`
    <form class="row filters" onSubmit=${(/** @type {Event} */ event) => event.preventDefault()}>
      <label class="grow">${t.brain.find}<input type="search" value=${words} onInput=${(/** @type {any} */ event) => setWords(event.target.value)} /></label>
      <label>${t.brain.type}<select value=${type} onChange=${(/** @type {any} */ event) => go(address('brain', [], { type: event.target.value }))}>
        <option value="">${t.brain.allTypes} (${whole.toLocaleString()})</option>${types.map((one) => html`<option key=${one.name} value=${one.name}>${one.icon} ${one.name} (${one.entity_count.toLocaleString()})</option>`)}</select></label>
      ${may('brain', 'write') && html`<${Button} kind="main" icon="plus" onClick=${() => setNew(!isNew)} aria-expanded=${isNew}>${t.brain.create}<//>`}
    </form>
    ${isNew && html`<${NewEntity} types=${types} type=${type} onCancel=${() => setNew(false)} />`}
    ${paged.error ? html`<${Problem} error=${paged.error} retry=${paged.reload} />` : paged.count === undefined ? html`<${Loading} />`
      : paged.count === 0 ? html`<${Empty}>${words || type ? t.brain.none : t.brain.empty}<//>` : html`
        <${VirtualTable} count=${paged.count} height=${ROW} label=${t.brain.tabs.entities} want=${paged.want} row=${(/** @type {number} */ index) => html`<${Row} of=${paged.at(index)} />`}
          head=${html`<div class="line" role="row" aria-rowindex="1"><span role="columnheader">${t.brain.name}</span><span role="columnheader">${t.brain.type}</span><span role="columnheader" class="wide">${t.brain.about}</span></div>`} />`}`;
}

/** @param {{of: any}} props */
const Row = ({ of }) => (of ? html`
  <span role="cell"><a href=${address('brain', ['entity', of.para_id])}>${of.name}</a>${of.aliases.length > 0 && html` <span class="soft wide">${of.aliases.join(', ')}</span>`}</span>
  <span role="cell"><${Tag}>${of.type || t.brain.noType}<//></span>
  <span role="cell" class="soft wide">${of.snippet}</span>` : html`<span role="cell" class="soft">…</span>`);
