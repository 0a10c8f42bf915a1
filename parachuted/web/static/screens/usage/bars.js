/** Bars: amounts as lengths, each with its figure beside it. */

import { html } from '../../vendor/view.js';
import { isoDay } from '../../lib/times.js';
import { t } from '../../lib/strings.js';

/** One bar a day, also of days on which nothing was. @param {{days: number, rows: {date: string, value: number}[], show: (value: number) => string}} props */
export function DayBars({ days, rows, show }) {
  const all = Array.from({ length: days }, (_, index) => {
    const at = new Date();
    at.setUTCDate(at.getUTCDate() - (days - 1 - index));
    const date = at.toISOString().slice(0, 10);
    return { date, value: rows.find((one) => one.date === date)?.value ?? 0 };
  });
  const most = Math.max(...all.map((one) => one.value), 1e-9);
  const step = Math.ceil(days / 10);
  return html`
    <div class="day-bars" role="img" aria-label=${t.usage.chart(all.filter((one) => one.value > 0).map((one) => `${one.date}: ${show(one.value)}`).join(', '))} style=${{ gridTemplateColumns: `repeat(${days}, minmax(0, 1fr))` }}>
      ${all.map((one, index) => html`
        <div key=${one.date} title=${`${one.date}: ${show(one.value)}`}>
          <span class="soft">${one.value > 0 && days <= 10 ? show(one.value) : ''}</span>
          <i class=${one.date === isoDay() ? 'today' : ''} style=${{ height: `${(100 * one.value) / most}%` }}></i>
          <span class="soft">${index % step === (days - 1) % step ? one.date.slice(5) : ''}</span>
        </div>`)}
    </div>`;
}

/** The largest first. @param {{title: string, rows: {name: string, value: number, to?: string}[], show: (value: number) => string}} props */
export function Bars({ title, rows, show }) {
  const most = Math.max(...rows.map((one) => one.value), 1e-9);
  return rows.length === 0 ? null : html`
    <section><h2>${title}</h2>
      <ul class="bars">${rows.slice(0, 12).map((one) => html`
        <li key=${one.name + one.to}>
          <span class="name">${one.to ? html`<a href=${one.to}>${one.name}</a>` : one.name}</span><span class="soft">${show(one.value)}</span>
          <i style=${{ width: `${(100 * one.value) / most}%` }}></i>
        </li>`)}</ul>
    </section>`;
}
