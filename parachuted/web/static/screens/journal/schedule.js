/** Schedule: the entry `schedule` in the frontmatter of an agent's file; no other line is changed. */

/**
 * The text with another schedule.
 * @param {string} text @param {{enabled: boolean, time: string, day: string}} wish `day`: empty for each day
 */
export function withSchedule(text, { enabled, time, day }) {
  const line = `schedule: {enabled: ${enabled}, time: "${time}"${day ? `, day: ${day}` : ''}}`;
  const end = text.includes('\r\n') ? '\r\n' : '\n';
  const lines = text.split('\n');
  const isMark = (/** @type {string} */ one) => one.replace(/^\uFEFF/, '').trimEnd() === '---';
  const last = isMark(lines[0]) ? lines.findIndex((one, at) => at > 0 && isMark(one)) : -1;
  if (last < 0) return `---${end}${line}${end}---${end}${text}`;
  const at = lines.findIndex((one, number) => number > 0 && number < last && /^["']?schedule["']?\s*:/.test(one));
  if (at < 0) return [...lines.slice(0, last), end === '\r\n' ? `${line}\r` : line, ...lines.slice(last)].join('\n');
  let next = at + 1;
  while (next < last && /^(\s+\S|\s*\r?$)/.test(lines[next])) next += 1;
  return [...lines.slice(0, at), end === '\r\n' ? `${line}\r` : line, ...lines.slice(next)].join('\n');
}
