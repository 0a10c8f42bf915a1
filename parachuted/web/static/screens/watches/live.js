/** Live: what happens among the watches, from the stream of events: which notes and ways are lit, and what each watcher does. */

import { useRef, useState } from '../../vendor/view.js';
import { useEvents } from '../../lib/events.js';

const LIT_MS = 6_000;

/**
 * @param {import('./shape.js').WatchShape} shape
 * @param {any[]} tasks those that wait or are at work
 * @param {() => void} changed is called when what the API tells may have changed
 * @returns {{lit: Map<string, number>, ways: Set<string>, states: Map<string, string>}}
 */
export function useLive(shape, tasks, changed) {
  const [lit, setLit] = useState(/** @type {Map<string, number>} */ (new Map()));
  const last = useRef(shape);
  last.current = shape;
  const light = (/** @type {string[]} */ keys) => {
    const until = Date.now() + LIT_MS;
    setLit((before) => new Map([...before, ...keys.map((one) => /** @type {[string, number]} */ ([one, until]))]));
    setTimeout(() => setLit((before) => new Map([...before].filter(([, end]) => end > Date.now()))), LIT_MS + 50);
  };
  const nodesOf = (/** @type {string[]} */ paths) => last.current.nodes.filter((one) => one.paths.some((path) => paths.includes(path))).map((one) => one.id);
  useEvents(['file.', 'task.', 'run.', 'watch.', 'budget.'], ({ event, data }) => {
    if (event.startsWith('file.')) light(nodesOf([data.path]));
    if (event === 'task.queued') {
      const from = nodesOf(data.paths ?? []);
      light([data.watcher, ...from, ...from.map((one) => `${one}\n${data.watcher}`)]);
    }
    if (event === 'task.started' || event === 'task.finished') light([data.watcher]);
    if (!event.startsWith('file.') || nodesOf([data.path]).length > 0) changed();
  });
  const states = new Map(tasks.map((one) => [one.watcher, one.state]));
  return { lit, ways: new Set([...lit.keys()].filter((one) => one.includes('\n'))), states };
}
