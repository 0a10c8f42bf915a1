/** Draw: has one note watch another: its `watch:` list gets a line, written where the text is the one that was read. */

import { html, useEffect, useState } from '../../vendor/view.js';
import { ask, get, inAddress } from '../../lib/api.js';
import { t } from '../../lib/strings.js';
import { toast, toastProblem } from '../../lib/toasts.js';
import { Button } from '../../ui/parts.js';

/** @param {{from: string, to: string, known: string[], onDone: () => void, onCancel?: () => void}} props `from` is to be watched by `to` */
export function DrawWatch({ from, to, known, onDone, onCancel }) {
  const [pattern, setPattern] = useState(from);
  const [watcher, setWatcher] = useState(to);
  useEffect(() => { setPattern(from); setWatcher(to); }, [from, to]);
  const save = async (/** @type {Event} */ event) => {
    event.preventDefault();
    const place = `/api/notes/${inAddress(watcher.trim())}`;
    try {
      const note = await get(place);
      const before = [note.frontmatter.watch ?? []].flat().map(String);
      if (before.includes(pattern.trim())) toast(t.watches.isThere);
      else {
        await ask('PATCH', place, { body: { key: 'watch', value: [...before, pattern.trim()] }, headers: { 'If-Match': `"${note.hash}"` } });
        toast(t.watches.drawn(watcher.trim(), pattern.trim()));
      }
      onDone();
    } catch (error) {
      toastProblem(error);
    }
  };
  return html`
    <form class="stack" onSubmit=${save}>
      <h3>${t.watches.draw}</h3>
      <label>${t.watches.pattern}<input required value=${pattern} list="watch-known" onInput=${(/** @type {any} */ event) => setPattern(event.target.value)} /></label>
      <label>${t.watches.by}<input required value=${watcher} list="watch-known" onInput=${(/** @type {any} */ event) => setWatcher(event.target.value)} /></label>
      <datalist id="watch-known">${known.map((one) => html`<option key=${one} value=${one}></option>`)}</datalist>
      <p class="row"><${Button} kind="main" type="submit">${t.watches.add}<//>${onCancel && html`<${Button} onClick=${onCancel}>${t.app.cancel}<//>`}</p>
    </form>`;
}
