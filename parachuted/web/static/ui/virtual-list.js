/** Virtual list: of very many rows only those in view are in the page; the others are loaded as they come near. */

import { html, useCallback, useEffect, useLayoutEffect, useRef, useState } from '../vendor/view.js';

const BEYOND = 12; // rows kept above and below what is in view
const PAGE = 100;

/**
 * @template T
 * @typedef {{count: number | undefined, at: (index: number) => T | undefined, want: (first: number, last: number) => void, error: Error | null, reload: () => void}} Paged
 */

/**
 * Rows that are asked for by the page, as they come into view.
 * @template T
 * @param {(offset: number, limit: number, signal: AbortSignal) => Promise<{rows: T[], count: number}>} ask
 * @param {any[]} on asked again from the beginning when one of these changes
 * @returns {Paged<T>}
 */
export function usePages(ask, on) {
  const of = JSON.stringify(on);
  const [, redraw] = useState(0);
  const held = useRef(/** @type {{of: string, pages: Map<number, T[] | null>, old: Map<number, T[] | null>, count: number | undefined, error: Error | null, cut: AbortController} | null} */ (null));
  const begin = () => {
    held.current?.cut.abort();
    const before = held.current?.of === of ? held.current : null;
    held.current = { of, pages: new Map(), old: before?.pages ?? new Map(), count: before?.count, error: null, cut: new AbortController() };
  };
  if (held.current?.of !== of) begin();
  const want = (/** @type {number} */ first, /** @type {number} */ last) => {
    const now = /** @type {NonNullable<typeof held.current>} */ (held.current);
    for (let page = Math.floor(first / PAGE); page <= Math.floor(last / PAGE); page += 1) {
      if (now.pages.has(page)) continue;
      now.pages.set(page, null);
      ask(page * PAGE, PAGE, now.cut.signal).then((found) => {
        now.pages.set(page, found.rows);
        now.count = found.count;
        redraw((before) => before + 1);
      }, (error) => {
        if (now.cut.signal.aborted) return;
        now.pages.delete(page);
        now.error = error;
        redraw((before) => before + 1);
      });
    }
  };
  const reload = useCallback(() => {
    begin();
    want(0, 0);
    redraw((before) => before + 1);
  }, [of]);
  useEffect(() => { want(0, 0); }, [of]);
  useEffect(() => () => held.current?.cut.abort(), []);
  const now = /** @type {NonNullable<typeof held.current>} */ (held.current);
  const at = (/** @type {number} */ index) => (now.pages.get(Math.floor(index / PAGE)) ?? now.old.get(Math.floor(index / PAGE)))?.[index % PAGE];
  return { count: now.count, error: now.count === undefined ? now.error : null, want, reload, at };
}

/**
 * @param {{count: number, height: number, label: string, row: (index: number) => any, want?: (first: number, last: number) => void, head?: any}} props
 * `height`: of a row, in pixels; `row`: what stands in one, a `role="row"`; `head`: the row above all
 */
export function VirtualTable({ count, height, label, row, want, head }) {
  const place = useRef(/** @type {HTMLElement | null} */ (null));
  const [[first, last], setRange] = useState([0, 30]);
  const look = () => {
    const box = place.current;
    if (!box) return;
    const from = Math.max(0, Math.floor(box.scrollTop / height) - BEYOND);
    const to = Math.min(count, Math.ceil((box.scrollTop + box.clientHeight) / height) + BEYOND);
    setRange((before) => (before[0] === from && before[1] === to ? before : [from, to]));
  };
  useLayoutEffect(() => {
    look();
    const observer = new ResizeObserver(look);
    observer.observe(/** @type {HTMLElement} */ (place.current));
    return () => observer.disconnect();
  }, [count]);
  useEffect(() => { if (count) want?.(first, Math.max(first, last - 1)); });
  const byKey = (/** @type {KeyboardEvent} */ event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const at = /** @type {HTMLElement} */ (event.target).closest('[role="row"]');
    if (!step || !at) return;
    const other = step > 0 ? at.nextElementSibling : at.previousElementSibling;
    const link = /** @type {HTMLElement | null} */ (other?.querySelector('a, button') ?? null);
    if (!link) return;
    event.preventDefault();
    link.focus();
  };
  const shown = Array.from({ length: Math.max(0, Math.min(last, count) - first) }, (_, index) => first + index);
  return html`
    <div class="virtual" role="table" aria-label=${label} aria-rowcount=${count + (head ? 1 : 0)}>
      ${head && html`<div class="head" role="rowgroup">${head}</div>`}
      <div class="body" role="rowgroup" tabindex="0" ref=${place} onScroll=${look} onKeyDown=${byKey}>
        <div class="whole" role="presentation" style=${{ height: `${count * height}px` }}>
          <div class="window" role="presentation" style=${{ transform: `translateY(${first * height}px)` }}>
            ${shown.map((index) => html`<div key=${index} class="line" role="row" aria-rowindex=${index + (head ? 2 : 1)} style=${{ height: `${height}px` }}>${row(index)}</div>`)}
          </div>
        </div>
      </div>
    </div>`;
}
