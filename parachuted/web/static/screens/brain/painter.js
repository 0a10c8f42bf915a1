/**
 * Painter: draws a graph of very many nodes on a canvas. It is drawn in slices of a few
 * milliseconds on a buffer, larger than what is in view; while a person pans and zooms the last
 * buffer is moved and scaled, so that no frame waits for all of it.
 */

const SLICE_MS = 5;
const AT_ONCE = 400; // edges or nodes between two looks at the clock
const MARGIN = 0.4; // of the buffer on each side, of what is in view
const LABELS = 60;

/**
 * @typedef {{x: number, y: number, k: number}} View where the middle of the canvas is, and pixels a unit
 * @typedef {object} Drawn
 * @property {{name: string, color: string, size: number}[]} nodes the one with the most edges first
 * @property {Uint32Array} ends two nodes an edge
 * @property {Float32Array} places x and y of each node
 * @property {{line: string, ink: string, paper: string, accent: string}} colors
 */

export class Painter {
  /** @param {HTMLCanvasElement} canvas */
  constructor(canvas) {
    this.canvas = canvas;
    this.front = /** @type {CanvasRenderingContext2D} */ (canvas.getContext('2d'));
    /** @type {View} */
    this.view = { x: 0, y: 0, k: 1 };
    this.chosen = -1;
    /** @type {Drawn | null} */
    this.drawn = null;
    /** @type {{canvas: HTMLCanvasElement, view: View} | null} */
    this.done = null;
    /** @type {{canvas: HTMLCanvasElement, view: View, steps: Generator<void>} | null} */
    this.making = null;
    /** @type {HTMLCanvasElement | null} */
    this.spare = null;
    this.isStale = true;
    this.frame = 0;
  }

  /** Shows another graph, or the same at other places. @param {Drawn} drawn */
  show(drawn) {
    this.drawn = drawn;
    this.isStale = true;
    this.wake();
  }

  /** @param {View} view */
  look(view) {
    this.view = view;
    this.wake();
  }

  /** Marks a node; -1: none. @param {number} node */
  choose(node) {
    this.chosen = node;
    this.wake();
  }

  /** The canvas has another size. @param {number} width @param {number} height in pixels of the page */
  resize(width, height) {
    const scale = Math.min(devicePixelRatio || 1, 2);
    Object.assign(this.canvas, { width: Math.round(width * scale), height: Math.round(height * scale) });
    this.scale = scale;
    this.isStale = true;
    this.wake();
  }

  close() {
    cancelAnimationFrame(this.frame);
    this.frame = -1;
  }

  wake() {
    if (!this.frame) this.frame = requestAnimationFrame(() => this.step());
  }

  step() {
    this.frame = 0;
    if (!this.drawn || !this.canvas.width) return;
    if (!this.making && (this.isStale || !this.done || !isSame(this.done.view, this.view))) this.begin();
    this.work();
    this.compose();
    if (this.making || this.isStale) this.wake();
  }

  begin() {
    const canvas = this.spare ?? document.createElement('canvas');
    const [width, height] = [this.canvas.width * (1 + 2 * MARGIN), this.canvas.height * (1 + 2 * MARGIN)].map(Math.round);
    if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
    this.spare = null;
    const view = { ...this.view };
    this.isStale = false;
    this.making = { canvas, view, steps: painted(canvas, /** @type {Drawn} */ (this.drawn), view, this.scale ?? 1) };
  }

  work() {
    const until = performance.now() + SLICE_MS;
    while (this.making && performance.now() < until) {
      if (!this.making.steps.next().done) continue;
      this.spare = this.done?.canvas ?? null;
      this.done = this.making;
      this.making = null;
    }
  }

  compose() {
    const { front, canvas, view, done } = this;
    front.setTransform(1, 0, 0, 1, 0, 0);
    front.clearRect(0, 0, canvas.width, canvas.height);
    if (done) {
      const scale = this.scale ?? 1;
      const by = view.k / done.view.k;
      const [width, height] = [done.canvas.width * by, done.canvas.height * by];
      const left = canvas.width / 2 + (done.view.x - view.x) * view.k * scale - width / 2;
      const top = canvas.height / 2 + (done.view.y - view.y) * view.k * scale - height / 2;
      front.drawImage(done.canvas, left, top, width, height);
    }
    if (this.chosen >= 0) this.mark();
  }

  /** The chosen node, its edges and its name, above all others. */
  mark() {
    const { front, drawn, chosen } = this;
    if (!drawn || !drawn.nodes[chosen]) return;
    const at = (/** @type {number} */ node) => this.place(node);
    const [x, y] = at(chosen);
    front.strokeStyle = drawn.colors.accent;
    front.lineWidth = 1.5 * (this.scale ?? 1);
    front.beginPath();
    for (let edge = 0; edge < drawn.ends.length; edge += 2) {
      if (drawn.ends[edge] !== chosen && drawn.ends[edge + 1] !== chosen) continue;
      front.moveTo(...at(drawn.ends[edge]));
      front.lineTo(...at(drawn.ends[edge + 1]));
    }
    front.stroke();
    front.beginPath();
    front.arc(x, y, (drawn.nodes[chosen].size + 4) * (this.scale ?? 1), 0, 2 * Math.PI);
    front.stroke();
    named(front, drawn.nodes[chosen].name, x, y - 10 * (this.scale ?? 1), drawn, 14 * (this.scale ?? 1));
  }

  /** Where a node is on the canvas, in its own pixels. @param {number} node @returns {[number, number]} */
  place(node) {
    const { places } = /** @type {Drawn} */ (this.drawn);
    const k = this.view.k * (this.scale ?? 1);
    return [this.canvas.width / 2 + (places[2 * node] - this.view.x) * k, this.canvas.height / 2 + (places[2 * node + 1] - this.view.y) * k];
  }
}

/** @param {View} one @param {View} other */
const isSame = (one, other) => one.x === other.x && one.y === other.y && one.k === other.k;

/** Draws all that falls on the canvas, a part at each step. @param {HTMLCanvasElement} canvas @param {Drawn} drawn @param {View} view @param {number} scale */
function* painted(canvas, drawn, view, scale) {
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext('2d'));
  const { width, height } = canvas;
  context.clearRect(0, 0, width, height);
  const { places, ends, nodes, colors } = drawn;
  const k = view.k * scale;
  const x = (/** @type {number} */ node) => width / 2 + (places[2 * node] - view.x) * k;
  const y = (/** @type {number} */ node) => height / 2 + (places[2 * node + 1] - view.y) * k;
  context.strokeStyle = colors.line;
  context.lineWidth = scale * Math.min(1, Math.max(0.4, view.k));
  for (let first = 0; first < ends.length; first += 2 * AT_ONCE) {
    context.beginPath();
    for (let edge = first; edge < Math.min(ends.length, first + 2 * AT_ONCE); edge += 2) {
      const [fromX, fromY, toX, toY] = [x(ends[edge]), y(ends[edge]), x(ends[edge + 1]), y(ends[edge + 1])];
      if (Math.max(fromX, toX) < 0 || Math.min(fromX, toX) > width || Math.max(fromY, toY) < 0 || Math.min(fromY, toY) > height) continue;
      context.moveTo(fromX, fromY);
      context.lineTo(toX, toY);
    }
    context.stroke();
    yield;
  }
  const grow = scale * Math.min(1.6, Math.max(0.35, Math.sqrt(view.k)));
  for (let node = nodes.length - 1; node >= 0; node -= 1) {
    const [atX, atY, size] = [x(node), y(node), nodes[node].size * grow];
    if (atX > -size && atX < width + size && atY > -size && atY < height + size) {
      context.fillStyle = nodes[node].color;
      if (size < 2) context.fillRect(atX - size, atY - size, 2 * size, 2 * size);
      else {
        context.beginPath();
        context.arc(atX, atY, size, 0, 2 * Math.PI);
        context.fill();
      }
    }
    if (node % AT_ONCE === 0) yield;
  }
  yield* labelled(context, drawn, x, y, scale);
}

/** Names of those with the most edges, none above another. @param {CanvasRenderingContext2D} context @param {Drawn} drawn @param {(node: number) => number} x @param {(node: number) => number} y @param {number} scale */
function* labelled(context, drawn, x, y, scale) {
  const taken = new Set();
  const { width, height } = context.canvas;
  for (let node = 0, count = 0; node < drawn.nodes.length && count < LABELS; node += 1) {
    const [atX, atY] = [x(node), y(node)];
    if (atX < 0 || atX > width || atY < 0 || atY > height) continue;
    const [column, row] = [Math.floor(atX / (110 * scale)), Math.floor(atY / (22 * scale))];
    if ([column - 1, column, column + 1].some((one) => [row - 1, row, row + 1].some((other) => taken.has(`${one} ${other}`)))) continue;
    taken.add(`${column} ${row}`);
    named(context, drawn.nodes[node].name, atX, atY - (drawn.nodes[node].size + 3) * scale, drawn, 12 * scale);
    count += 1;
    if (count % 10 === 0) yield;
  }
}

/** @param {CanvasRenderingContext2D} context @param {string} name @param {number} x @param {number} y @param {Drawn} drawn @param {number} size */
function named(context, name, x, y, drawn, size) {
  context.font = `${size}px system-ui, sans-serif`;
  context.textAlign = 'center';
  context.lineWidth = size / 4;
  context.lineJoin = 'round';
  context.strokeStyle = drawn.colors.paper;
  const text = name.length > 28 ? `${name.slice(0, 27)}…` : name;
  context.strokeText(text, x, y);
  context.fillStyle = drawn.colors.ink;
  context.fillText(text, x, y);
}
