/** Shape: which notes watch which, as nodes and edges, where each lies, and what is lit. Pure, but for the layout's library. */

const MOST_LEAVES = 10; // notes of one watcher, beyond which they are one node
const HEIGHT = 46;

/**
 * @typedef {{id: string, name: string, paths: string[], watch: any | null}} WatchNode `paths`: the notes that it stands for
 * @typedef {{from: string, to: string}} WatchEdge
 * @typedef {{nodes: WatchNode[], edges: WatchEdge[]}} WatchShape
 */

/**
 * Watchers, and what they watch; many notes of one watcher, which watch nothing themselves, are one node.
 * @param {any[]} watches
 * @returns {WatchShape}
 */
export function shapeOf(watches) {
  const watchers = new Map(watches.map((one) => [one.watcher, one]));
  /** @type {Map<string, WatchNode>} */
  const nodes = new Map(watches.map((one) => [one.watcher, { id: one.watcher, name: nameOf(one.watcher), paths: [one.watcher], watch: one }]));
  const edges = /** @type {WatchEdge[]} */ ([]);
  for (const one of watches) {
    const leaves = one.watched.filter((/** @type {string} */ path) => !watchers.has(path));
    if (leaves.length > MOST_LEAVES) {
      const id = `${one.watcher} *`;
      nodes.set(id, { id, name: `${leaves.length.toLocaleString()} notes`, paths: leaves, watch: null });
      edges.push({ from: id, to: one.watcher });
    }
    for (const path of one.watched) {
      if (leaves.length > MOST_LEAVES && !watchers.has(path)) continue;
      if (!nodes.has(path)) nodes.set(path, { id: path, name: nameOf(path), paths: [path], watch: null });
      edges.push({ from: path, to: one.watcher });
    }
  }
  return { nodes: [...nodes.values()], edges };
}

/** How a note is called where its folder matters more than its file. @param {string} path */
function nameOf(path) {
  const parts = path.replace(/\.md$/, '').split('/');
  return /^(AGENTS|CLAUDE)$/.test(parts.at(-1) ?? '') && parts.length > 1 ? parts.slice(-2, -1)[0] : /** @type {string} */ (parts.at(-1));
}

/**
 * Where each node lies, and the way of each edge.
 * @param {WatchShape} shape @param {boolean} isNarrow
 */
export async function layOut({ nodes, edges }, isNarrow) {
  const size = { width: isNarrow ? 150 : 170, height: HEIGHT };
  const { Graph, layout } = await import('../../vendor/layers.js');
  const graph = new Graph();
  graph.setGraph({ rankdir: isNarrow ? 'TB' : 'LR', nodesep: 14, ranksep: isNarrow ? 36 : 52, marginx: 12, marginy: 12 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const one of nodes) graph.setNode(one.id, { ...size });
  for (const one of edges) if (one.from !== one.to) graph.setEdge(one.from, one.to);
  layout(graph);
  const { width = 0, height = 0 } = graph.graph();
  return {
    width,
    height,
    size,
    at: new Map(nodes.map((one) => [one.id, graph.node(one.id)])),
    ways: edges.filter((one) => one.from !== one.to).map((one) => ({ ...one, way: wayOf(graph.edge(one.from, one.to).points) })),
  };
}

/** A line through the points, round at its bends. @param {{x: number, y: number}[]} points */
function wayOf(points) {
  const [first, ...rest] = points;
  const bends = rest.slice(0, -1).map((one, index) => `Q${one.x},${one.y} ${(one.x + rest[index + 1].x) / 2},${(one.y + rest[index + 1].y) / 2}`);
  const last = /** @type {{x: number, y: number}} */ (points.at(-1));
  return `M${first.x},${first.y} ${bends.join(' ')} L${last.x},${last.y}`;
}
