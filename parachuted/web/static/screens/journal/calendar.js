/** Calendar: a month, with the days that have entries. */

import { html, useState } from '../../vendor/view.js';
import { get } from '../../lib/api.js';
import { useEvents } from '../../lib/events.js';
import { useLoad } from '../../lib/load.js';
import { address } from '../../lib/router.js';
import { t } from '../../lib/strings.js';
import { dayName, isoDay, monthName } from '../../lib/times.js';
import { IconButton } from '../../ui/parts.js';

/** @param {{day: string}} props */
export function Calendar({ day }) {
  const [shift, setShift] = useState(0);
  const around = day ? new Date(`${day}T12:00`) : new Date();
  const first = new Date(around.getFullYear(), around.getMonth() + shift, 1);
  const written = useLoad((signal) => get('/api/daily/days', {}, signal), []);
  useEvents(['daily.', 'file.created', 'file.deleted'], written.reload);
  const days = new Map((written.data?.days ?? []).map((/** @type {any} */ one) => [one.date, one.entries]));
  return html`
    <section class="calendar" aria-label=${t.journal.calendar}>
      <header>
        <h2>${monthName(first)}</h2>
        <${IconButton} icon="left" label=${t.journal.before} onClick=${() => setShift(shift - 1)} />
        <${IconButton} icon="right" label=${t.journal.after} onClick=${() => setShift(shift + 1)} />
      </header>
      <ol>
        ${datesOf(first).map((date, index) => {
          const iso = isoDay(date);
          const count = days.get(iso) ?? 0;
          return html`<li key=${iso} class=${index === 0 ? `from-${(date.getDay() + 6) % 7}` : ''}>
            <a href=${address('journal', [iso])} class=${count ? 'written' : ''} aria-label=${`${dayName(iso)}, ${count}`}
              aria-current=${iso === day ? 'date' : null} data-today=${iso === isoDay()}>${date.getDate()}</a>
          </li>`;
        })}
      </ol>
    </section>`;
}

/** @param {Date} first */
const datesOf = (first) => {
  const count = new Date(first.getFullYear(), first.getMonth() + 1, 0).getDate();
  return Array.from({ length: count }, (_, index) => new Date(first.getFullYear(), first.getMonth(), index + 1));
};
