/** Canvas: a graph on which a person pans, zooms and chooses, by pointer, touch and keys. */

import { html, useEffect, useLayoutEffect, useMemo, useRef } from '../../vendor/view.js';
import { startWorker } from '../../lib/workers.js';
import { theme } from '../../lib/theme.js';
import { Painter } from './painter.js';

const KINDS = 8; // colours that distinguish types
const NEAR = 14; // pixels from a node that still mean it
/** Where nodes were last, by id, so that a graph that is opened again lies as it did. @type {Map<string, [number, number]>} */
const known = new Map();

/** @param {string} name of a custom property */
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** The colour of each type, in the order in which they are listed. @param {string[]} types @param {string} type */
export const kindOf = (types, type) => `--k${((types.indexOf(type) + KINDS) % KINDS) + 1}`;

/**
 * @param {{graph: {nodes: any[], edges: any[]}, types: string[], chosen: string, choose: (id: string) => void, label: string}} props
 */
export function GraphCanvas({ graph, types, chosen, choose, label }) {
  const place = useRef(/** @type {HTMLCanvasElement | null} */ (null));
  const painter = useRef(/** @type {Painter | null} */ (null));
  const shape = useMemo(() => shapeOf(graph), [graph]);
  const places = useRef(new Float32Array());
  useLayoutEffect(() => {
    const canvas = /** @type {HTMLCanvasElement} */ (place.current);
    const made = new Painter(canvas);
    painter.current = made;
    const observer = new ResizeObserver(() => made.resize(canvas.clientWidth, canvas.clientHeight));
    observer.observe(canvas);
    const stop = moved(canvas, made, (x, y) => {
      const found = nearest(made, x, y);
      if (found >= 0) choose(canvas.dataset.ids?.split('\n')[found] ?? '');
    });
    return () => {
      observer.disconnect();
      stop();
      made.close();
    };
  }, []);
  const show = () => painter.current?.show({ nodes: shape.nodes.map((one) => ({ ...one, color: color(kindOf(types, one.type)) })), ends: shape.ends, places: places.current, colors: { line: color('--edge'), ink: color('--ink'), paper: color('--paper'), accent: color('--accent') } });
  useEffect(() => {
    const canvas = /** @type {HTMLCanvasElement} */ (place.current);
    canvas.dataset.ids = shape.ids.join('\n');
    canvas.dataset.settled = 'false';
    const isKnown = shape.ids.length > 0 && shape.ids.filter((id) => known.has(id)).length > shape.ids.length / 2;
    places.current = new Float32Array(shape.ids.flatMap((id, index) => known.get(id) ?? spiral(index)));
    show();
    fit(/** @type {Painter} */ (painter.current));
    const worker = startWorker('screens/brain/layout-worker.js');
    let isMoved = isKnown;
    canvas.addEventListener('pointerdown', () => { isMoved = true; }, { once: true });
    worker.addEventListener('message', ({ data }) => {
      places.current = data.places;
      shape.ids.forEach((id, index) => known.set(id, [data.places[2 * index], data.places[2 * index + 1]]));
      show();
      if (!isMoved) fit(/** @type {Painter} */ (painter.current));
      if (data.isSettled) canvas.dataset.settled = 'true';
    });
    worker.postMessage({ count: shape.ids.length, ends: shape.ends, places: places.current, isKnown });
    return () => worker.terminate();
  }, [shape]);
  useEffect(() => { show(); }, [theme.value, types.join()]);
  useEffect(() => {
    const index = shape.ids.indexOf(chosen);
    painter.current?.choose(index);
    if (index >= 0 && painter.current) centre(painter.current, index);
  }, [chosen, shape]);
  return html`<canvas class="graph" ref=${place} tabindex="0" role="application" aria-label=${label}></canvas>`;
}

/** @param {{nodes: any[], edges: any[]}} graph */
function shapeOf({ nodes, edges }) {
  const at = new Map(nodes.map((one, index) => [one.id, index]));
  const held = edges.filter((one) => at.has(one.source) && at.has(one.target));
  return {
    ids: nodes.map((one) => one.id),
    nodes: nodes.map((one) => ({ name: one.name, type: one.type, size: 3 + Math.min(9, Math.sqrt(one.degree)) })),
    ends: new Uint32Array(held.flatMap((one) => [at.get(one.source), at.get(one.target)])),
  };
}

/** Where a node begins whose place is not known: sunflower seeds. @param {number} index @returns {[number, number]} */
function spiral(index) {
  const [radius, angle] = [10 * Math.sqrt(index + 0.5), index * Math.PI * (3 - Math.sqrt(5))];
  return [radius * Math.cos(angle), radius * Math.sin(angle)];
}

/** Shows all of it. @param {Painter} painter */
function fit(painter) {
  const places = painter.drawn?.places ?? [];
  const { clientWidth, clientHeight } = painter.canvas;
  if (places.length === 0 || !clientWidth) return;
  const sides = [Infinity, -Infinity, Infinity, -Infinity];
  for (let at = 0; at < places.length; at += 2) {
    sides[0] = Math.min(sides[0], places[at]);
    sides[1] = Math.max(sides[1], places[at]);
    sides[2] = Math.min(sides[2], places[at + 1]);
    sides[3] = Math.max(sides[3], places[at + 1]);
  }
  const k = Math.min(2.5, (clientWidth - 80) / (sides[1] - sides[0] || 1), (clientHeight - 80) / (sides[3] - sides[2] || 1));
  painter.look({ x: (sides[0] + sides[1]) / 2, y: (sides[2] + sides[3]) / 2, k });
}

/** @param {Painter} painter @param {number} node */
function centre(painter, node) {
  const { places } = /** @type {NonNullable<Painter['drawn']>} */ (painter.drawn);
  painter.look({ x: places[2 * node], y: places[2 * node + 1], k: Math.max(painter.view.k, 1) });
}

/** The node at that place of the canvas; -1: none. @param {Painter} painter @param {number} x @param {number} y */
function nearest(painter, x, y) {
  const { view, drawn, canvas } = painter;
  const places = drawn?.places ?? [];
  let [found, least] = [-1, NEAR ** 2];
  for (let node = 0; node < places.length / 2; node += 1) {
    const away = ((places[2 * node] - view.x) * view.k + canvas.clientWidth / 2 - x) ** 2 + ((places[2 * node + 1] - view.y) * view.k + canvas.clientHeight / 2 - y) ** 2;
    if (away < least) [found, least] = [node, away];
  }
  return found;
}

/** Pan and zoom. @param {HTMLCanvasElement} canvas @param {Painter} painter @param {(x: number, y: number) => void} tap @returns {() => void} ends it */
function moved(canvas, painter, tap) {
  /** @type {Map<number, {x: number, y: number}>} */
  const held = new Map();
  let path = 0;
  const cut = new AbortController();
  const on = (/** @type {string} */ name, /** @type {(event: any) => void} */ act) => canvas.addEventListener(name, act, { signal: cut.signal, passive: false });
  const zoom = (/** @type {number} */ by, /** @type {number} */ x, /** @type {number} */ y) => {
    const { view } = painter;
    const k = Math.min(20, Math.max(0.01, view.k * by));
    const [aside, below] = [x - canvas.clientWidth / 2, y - canvas.clientHeight / 2];
    painter.look({ x: view.x + aside / view.k - aside / k, y: view.y + below / view.k - below / k, k });
  };
  const pan = (/** @type {number} */ x, /** @type {number} */ y) => painter.look({ ...painter.view, x: painter.view.x - x / painter.view.k, y: painter.view.y - y / painter.view.k });
  on('wheel', (event) => {
    event.preventDefault();
    zoom(Math.exp(-event.deltaY * (event.deltaMode === 1 ? 0.05 : 0.002)), event.offsetX, event.offsetY);
  });
  on('pointerdown', (event) => {
    canvas.setPointerCapture(event.pointerId);
    held.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
    path = 0;
  });
  on('pointermove', (event) => {
    const before = held.get(event.pointerId);
    if (!before) return;
    const now = { x: event.offsetX, y: event.offsetY };
    const other = [...held].find(([id]) => id !== event.pointerId)?.[1];
    if (other) zoom(Math.hypot(now.x - other.x, now.y - other.y) / (Math.hypot(before.x - other.x, before.y - other.y) || 1), (now.x + other.x) / 2, (now.y + other.y) / 2);
    else pan(now.x - before.x, now.y - before.y);
    path += Math.hypot(now.x - before.x, now.y - before.y);
    held.set(event.pointerId, now);
  });
  const end = (/** @type {any} */ event) => { if (held.delete(event.pointerId) && path < 5 && event.type === 'pointerup') tap(event.offsetX, event.offsetY); };
  on('pointerup', end);
  on('pointercancel', end);
  on('keydown', (event) => {
    const [x, y] = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] }[/** @type {string} */ (event.key)] ?? [0, 0];
    const by = { '+': 1.25, '=': 1.25, '-': 0.8 }[/** @type {string} */ (event.key)];
    if (x || y) pan(x, y);
    else if (by) zoom(by, canvas.clientWidth / 2, canvas.clientHeight / 2);
    else if (event.key === '0') fit(painter);
    else return;
    event.preventDefault();
  });
  return () => cut.abort();
}
