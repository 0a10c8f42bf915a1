/** Journal: write, read by day, edit, delete with undo. The module Daily keeps it. */

import { html, useEffect, useState } from '../../vendor/view.js';
import { ApiError, get } from '../../lib/api.js';
import { useEvents } from '../../lib/events.js';
import { useLoad } from '../../lib/load.js';
import { address } from '../../lib/router.js';
import { may } from '../../lib/session.js';
import { t } from '../../lib/strings.js';
import { dayName, isoDay } from '../../lib/times.js';
import { toast, toastProblem } from '../../lib/toasts.js';
import { addUnsent, deliver, removeUnsent } from '../../lib/unsent.js';
import { useLater } from '../../ui/later.js';
import { Button, Empty, Shown } from '../../ui/parts.js';
import { Unsent } from '../../ui/unsent.js';
import { Calendar } from './calendar.js';
import { Entry } from './entry.js';
import { Find } from './find.js';
import { Loops } from './loops.js';
import { Mentions } from './mentions.js';
import { Voice } from './voice.js';

const PAGE = 30;
const DRAFT = 'parachute.draft';

/**
 * An entry as Daily tells it, with its text.
 * @typedef {{id: string, path: string, title: string, created_at: string, content: string, metadata: Record<string, any>}} JournalEntry
 */

/** @param {import('../index.js').ScreenProps} props */
export default function Journal({ rest }) {
  const day = /^\d{4}-\d\d-\d\d$/.test(rest[0] ?? '') ? rest[0] : '';
  const [count, setCount] = useState(PAGE);
  const page = useLoad((signal) => get('/api/daily/entries', { limit: count, date: day, whole: true }, signal), [count, day]);
  const [areEntriesShown, setEntriesShown] = useState(false);
  const isAnswered = Boolean(page.data || page.error);
  useEffect(() => { if (isAnswered) setEntriesShown(true); }, [isAnswered]); // after the frame that shows them
  useEvents(['daily.', 'file.'], (told) => { if (isOfDaily(told)) page.reload(); });
  return html`
    <div class="page journal">
      <header><h1>${day ? dayName(day) : t.journal.title}</h1>${day && html`<a href=${address('journal')}>${t.journal.all}</a>`}</header>
      <div class="beside">
        <div>
          ${may('daily', 'write') && html`<${Compose} key=${day} day=${day} onDone=${page.reload} />`}
          <${Unsent} of=${isEntry} text=${textOf} />
          <${Shown} of=${page}>${(/** @type {any} */ found) => html`
            <${Days} entries=${found.entries} day=${day} onChange=${page.reload} />
            ${found.entries.length < found.count && html`<${Button} onClick=${() => setCount(count + PAGE)}>${t.journal.older}<//>`}`}
          <//>
        </div>
        <aside>
          ${areEntriesShown && html`<${Find} /><${Calendar} day=${day} /><${Loops} /><${LateReflections} />`}
        </aside>
      </div>
    </div>`;
}

/** @typedef {import('../../lib/unsent.js').Unsent} UnsentItem */
const isEntry = (/** @type {UnsentItem} */ item) => item.kind === 'entry';
const textOf = (/** @type {UnsentItem} */ item) => item.body.content;

function LateReflections() {
  const [file] = useLater(() => import('./reflections.js'));
  return file && html`<${file.Reflections} />`;
}

/** @param {import('../../lib/events.js').Told} told */
const isOfDaily = (told) => !told.event.startsWith('file.') || String(told.data.path).startsWith('Daily/');

/** @param {{entries: JournalEntry[], day: string, onChange: () => void}} props */
function Days({ entries, day, onChange }) {
  if (!entries.length) return html`<${Empty}>${day ? t.journal.emptyDay : t.journal.empty}<//>`;
  const days = Map.groupBy(entries, (one) => dayOf(one));
  return [...days].map(([iso, those]) => html`
    <section class="day" key=${iso} aria-label=${dayName(iso)}>
      <h2 class=${day ? 'hidden' : ''}><a href=${address('journal', [iso])}>${iso === isoDay() ? t.journal.today : dayName(iso)}</a></h2>
      ${those.map((one) => html`<${Entry} key=${one.id} entry=${one} onChange=${onChange} />`)}
    </section>`);
}

/** The day that an entry is of: that of its file, or of its time. @param {JournalEntry} entry */
const dayOf = (entry) => /(\d{4}-\d\d-\d\d)\.md$/.exec(entry.path)?.[1] ?? isoDay(new Date(entry.created_at));

/** @param {{day: string, onDone: () => void}} props */
function Compose({ day, onDone }) {
  const [text, setText] = useState(localStorage.getItem(DRAFT) ?? '');
  const [isSending, setSending] = useState(false);
  const keep = (/** @type {string} */ value) => {
    setText(value);
    localStorage.setItem(DRAFT, value); // a page that is closed, or a daemon that is away, loses no word
  };
  const add = async () => {
    if (!text.trim() || isSending) return;
    setSending(true);
    try {
      const item = addUnsent('entry', { content: text.trim(), created_at: momentOf(day) });
      keep('');
      const error = await deliver(item);
      if (!error) {
        toast(t.journal.added);
        onDone();
      } else if (error instanceof ApiError && error.status >= 400 && error.status < 500) {
        removeUnsent(item);
        keep(item.body.content);
        toastProblem(error);
      } else toast(t.unsent.kept);
    } catch (error) {
      toastProblem(error); // this browser has no room for it; it is in its place still
    } finally {
      setSending(false);
    }
  };
  const byKey = (/** @type {KeyboardEvent} */ event) => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) add();
  };
  return html`
    <form class="compose" onSubmit=${(/** @type {Event} */ event) => { event.preventDefault(); add(); }}>
      <textarea aria-label=${t.journal.writeLabel} placeholder=${t.journal.write} rows="3" value=${text}
        onInput=${(/** @type {any} */ event) => keep(event.target.value)} onKeyDown=${byKey}></textarea>
      <${Mentions} text=${text} onChange=${keep} />
      <div class="row middle">
        <span class="soft grow">${t.journal.hint}</span>
        <${Button} kind="main" type="submit" disabled=${isSending || !text.trim()}>${day && day !== isoDay() ? t.journal.addTo(dayName(day)) : t.journal.add}<//>
      </div>
      <${Voice} momentOf=${() => momentOf(day)} onDone=${onDone} />
    </form>`;
}

/** The time of a new entry: now, on that day, with the zone of this browser. @param {string} day */
function momentOf(day) {
  const now = new Date();
  const minutes = -now.getTimezoneOffset();
  const two = (/** @type {number} */ value) => String(Math.floor(value)).padStart(2, '0');
  const zone = `${minutes < 0 ? '-' : '+'}${two(Math.abs(minutes) / 60)}:${two(Math.abs(minutes) % 60)}`;
  return `${day || isoDay(now)}T${two(now.getHours())}:${two(now.getMinutes())}:${two(now.getSeconds())}${zone}`;
}
