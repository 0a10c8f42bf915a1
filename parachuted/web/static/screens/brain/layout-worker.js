/**
 * Layout worker: where the nodes of a graph lie, by forces between them. It receives
 * `{count, ends, places, isKnown}` (`ends`: two nodes an edge; `places`: x and y of each node) and
 * posts `{places, isSettled}` several times a second until nothing moves.
 */

import { forceLink, forceManyBody, forceSimulation, forceX, forceY } from '../../vendor/forces.js';

const TELLS_MS = 250;
const STEPS = 120;

addEventListener('message', ({ data }) => {
  const { count, ends, places, isKnown } = data;
  const nodes = Array.from({ length: count }, (_, index) => ({ index, x: places[2 * index], y: places[2 * index + 1] }));
  const links = Array.from({ length: ends.length / 2 }, (_, index) => ({ source: ends[2 * index], target: ends[2 * index + 1] }));
  const simulation = forceSimulation(nodes)
    .force('charge', forceManyBody().strength(-30).theta(1.2).distanceMax(600))
    .force('link', forceLink(links).distance(40))
    .force('x', forceX().strength(0.04))
    .force('y', forceY().strength(0.04))
    .alpha(isKnown ? 0.3 : 1)
    .alphaDecay(1 - 0.001 ** (1 / STEPS))
    .stop();
  let told = performance.now();
  while (simulation.alpha() > simulation.alphaMin()) {
    simulation.tick();
    if (performance.now() - told > TELLS_MS) {
      tell(nodes, false);
      told = performance.now();
    }
  }
  tell(nodes, true);
});

/** @param {{x: number, y: number}[]} nodes @param {boolean} isSettled */
function tell(nodes, isSettled) {
  const places = new Float32Array(2 * nodes.length);
  nodes.forEach((one, index) => places.set([one.x, one.y], 2 * index));
  postMessage({ places, isSettled }, /** @type {any} */ ([places.buffer]));
}
