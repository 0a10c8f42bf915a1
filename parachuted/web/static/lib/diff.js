/** Diff: which lines of a text another one added and removed. */

const MOST = 2_000; // edits, beyond which the middle is shown as replaced whole

/** @typedef {{kind: 'same' | 'added' | 'removed', text: string}} Line */

/**
 * The lines of both, in order.
 * @param {string} before
 * @param {string} after
 * @returns {Line[]}
 */
export function diffLines(before, after) {
  const [a, b] = [before.split('\n'), after.split('\n')];
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start += 1;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end += 1;
  const middle = shortest(a.slice(start, a.length - end), b.slice(start, b.length - end));
  const same = (/** @type {string[]} */ lines) => lines.map((text) => ({ kind: /** @type {const} */ ('same'), text }));
  return [...same(a.slice(0, start)), ...middle, ...same(a.slice(a.length - end))];
}

/**
 * Only lines that differ, and some around them; null stands for lines that were left out.
 * @param {Line[]} lines
 * @returns {(Line | null)[]}
 */
export function around(lines, context = 3) {
  const near = lines.map((_, index) => lines.slice(Math.max(0, index - context), index + context + 1).some((one) => one.kind !== 'same'));
  return lines.flatMap((line, index) => (near[index] ? [line] : index > 0 && !near[index - 1] ? [] : [null]));
}

/**
 * The part in which two texts differ, as a change of the first one.
 * @param {string} before
 * @param {string} after
 * @returns {{from: number, to: number, insert: string}}
 */
export function smallestChange(before, after) {
  let from = 0;
  const most = Math.min(before.length, after.length);
  while (from < most && before[from] === after[from]) from += 1;
  let end = 0;
  while (end < most - from && before[before.length - 1 - end] === after[after.length - 1 - end]) end += 1;
  return { from, to: before.length - end, insert: after.slice(from, after.length - end) };
}

/** Myers' shortest edit script. @param {string[]} a @param {string[]} b @returns {Line[]} */
function shortest(a, b) {
  const steps = /** @type {Map<number, number>[]} */ ([]);
  let reach = new Map([[1, 0]]);
  const most = Math.min(a.length + b.length, MOST);
  for (let edits = 0; edits <= most; edits += 1) {
    steps.push(new Map(reach));
    for (let k = -edits; k <= edits; k += 2) {
      const isDown = k === -edits || (k !== edits && (reach.get(k - 1) ?? -1) < (reach.get(k + 1) ?? -1));
      let x = isDown ? reach.get(k + 1) ?? 0 : (reach.get(k - 1) ?? 0) + 1;
      while (x < a.length && x - k < b.length && a[x] === b[x - k]) x += 1;
      reach.set(k, x);
      if (x >= a.length && x - k >= b.length) return traced(a, b, steps);
    }
  }
  return [...a.map((text) => ({ kind: /** @type {const} */ ('removed'), text })), ...b.map((text) => ({ kind: /** @type {const} */ ('added'), text }))];
}

/** @param {string[]} a @param {string[]} b @param {Map<number, number>[]} steps @returns {Line[]} */
function traced(a, b, steps) {
  const lines = /** @type {Line[]} */ ([]);
  let [x, y] = [a.length, b.length];
  for (let edits = steps.length - 1; edits >= 0; edits -= 1) {
    const reach = steps[edits];
    const k = x - y;
    const isDown = k === -edits || (k !== edits && (reach.get(k - 1) ?? -1) < (reach.get(k + 1) ?? -1));
    const from = isDown ? k + 1 : k - 1;
    const startX = edits ? reach.get(from) ?? 0 : 0;
    const startY = edits ? startX - from : 0;
    const [afterX, afterY] = edits ? (isDown ? [startX, startY + 1] : [startX + 1, startY]) : [0, 0];
    while (x > afterX && y > afterY) {
      x -= 1;
      y -= 1;
      lines.unshift({ kind: 'same', text: a[x] });
    }
    if (edits && isDown) lines.unshift({ kind: 'added', text: b[startY] });
    else if (edits) lines.unshift({ kind: 'removed', text: a[startX] });
    [x, y] = [startX, startY];
  }
  return lines;
}
