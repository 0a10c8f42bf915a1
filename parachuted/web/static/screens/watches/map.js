/** Map: the notes that watch and are watched, drawn; what happens lights its way. */

import { html, useEffect, useState } from '../../vendor/view.js';
import { t } from '../../lib/strings.js';
import { Loading } from '../../ui/parts.js';
import { layOut } from './shape.js';

/**
 * @typedef {{lit: Map<string, number>, ways: Set<string>, states: Map<string, string>, planned: Map<string, number>}} Now
 * `lit`: nodes where something happened; `ways`: edges, as `from\nto`; `planned`: what a change would wake, with its step
 * @param {{shape: import('./shape.js').WatchShape, now: Now, chosen: string, choose: (id: string) => void, draw: (from: string, to: string) => void}} props
 */
export function WatchMap({ shape, now, chosen, choose, draw }) {
  const [isNarrow, setNarrow] = useState(innerWidth < 832);
  const [laid, setLaid] = useState(/** @type {any} */ (null));
  const [dragged, setDragged] = useState('');
  useEffect(() => {
    const look = () => setNarrow(innerWidth < 832);
    addEventListener('resize', look);
    return () => removeEventListener('resize', look);
  }, []);
  const of = JSON.stringify([shape.edges, shape.nodes.map((one) => one.id), isNarrow]);
  useEffect(() => {
    let isOld = false;
    layOut(shape, isNarrow).then((found) => { if (!isOld) setLaid(found); });
    return () => { isOld = true; };
  }, [of]);
  if (!laid) return html`<${Loading} />`;
  const drop = (/** @type {any} */ event, /** @type {string} */ to) => {
    event.preventDefault();
    if (dragged && dragged !== to) draw(dragged, to);
    setDragged('');
  };
  return html`
    <div class="watch-map" role="group" aria-label=${t.watches.map} tabindex="0">
      <div class="inner" style=${{ width: `${laid.width}px`, height: `${laid.height}px` }}>
        <svg width=${laid.width} height=${laid.height} aria-hidden="true" focusable="false">
          <defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="9" markerHeight="9" markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0L8 4L0 8z" /></marker></defs>
          ${laid.ways.map((/** @type {any} */ one) => html`<path key=${`${one.from}\n${one.to}`} d=${one.way} marker-end="url(#arrow)" class=${now.ways.has(`${one.from}\n${one.to}`) ? 'lit' : now.planned.has(one.to) && (now.planned.has(one.from) || one.from === chosen) ? 'planned' : ''} />`)}
        </svg>
        ${shape.nodes.filter((one) => laid.at.has(one.id)).map((one) => html`
          <button type="button" key=${one.id} title=${one.paths.length === 1 ? one.paths[0] : one.name} aria-pressed=${one.id === chosen} draggable=${one.paths.length === 1}
            class="watch-node ${one.watch ? 'watcher' : ''} ${now.lit.has(one.id) ? 'lit' : ''} ${now.planned.has(one.id) ? 'planned' : ''} ${now.states.get(one.id) ?? ''}"
            style=${{ left: `${laid.at.get(one.id).x - laid.size.width / 2}px`, top: `${laid.at.get(one.id).y - laid.size.height / 2}px`, width: `${laid.size.width}px`, height: `${laid.size.height}px` }}
            onClick=${() => choose(one.id)} onDragStart=${(/** @type {any} */ event) => { event.dataTransfer.setData('text/plain', one.id); setDragged(one.id); }}
            onDragOver=${(/** @type {any} */ event) => { if (dragged) event.preventDefault(); }} onDrop=${(/** @type {any} */ event) => drop(event, one.id)}>
            <strong>${one.name}</strong>
            <span>${now.planned.has(one.id) ? t.watches.step(/** @type {number} */ (now.planned.get(one.id))) : t.watches.states[now.states.get(one.id) ?? ''] ?? (one.watch ? (one.watch.unseen.length ? t.watches.unseen(one.watch.unseen.length) : t.watches.fresh) : '')}</span>
          </button>`)}
      </div>
    </div>`;
}
