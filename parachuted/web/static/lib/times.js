/** Times: as people read them, in the language and zone of the browser. */

import { t } from './strings.js';

/**
 * What `make` makes, when it is first needed: a format takes a browser several milliseconds to make.
 * @template T
 * @param {() => T} make
 * @returns {() => T}
 */
function once(make) {
  /** @type {T | undefined} */
  let made;
  return () => (made ??= make());
}

/** @param {Intl.DateTimeFormatOptions} options */
const format = (options) => once(() => new Intl.DateTimeFormat(undefined, options));

const day = format({ weekday: 'long', day: 'numeric', month: 'long' });
const dayOfYear = format({ weekday: 'long', day: 'numeric', month: 'long', year: 'numeric' });
const clock = format({ hour: '2-digit', minute: '2-digit', hourCycle: 'h23' });
const moment = format({ day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit', hourCycle: 'h23' });
const month = format({ month: 'long', year: 'numeric' });
const since = once(() => new Intl.RelativeTimeFormat(undefined, { numeric: 'auto' }));

/** The day as `2026-02-24`, where this browser is. @param {Date} [date] */
export const isoDay = (date = new Date()) =>
  `${date.getFullYear()}-${String(date.getMonth() + 1).padStart(2, '0')}-${String(date.getDate()).padStart(2, '0')}`;

/** A day of the calendar. @param {string} iso */
export function dayName(iso) {
  const [year, monthNumber, date] = iso.split('-').map(Number);
  const at = new Date(year, monthNumber - 1, date);
  if (Number.isNaN(at.getTime())) return iso;
  return (at.getFullYear() === new Date().getFullYear() ? day() : dayOfYear()).format(at);
}

/** @param {Date} first a day of the month */
export const monthName = (first) => month().format(first);
/** `14:05`. @param {string} time */
export const clockTime = (time) => (time ? clock().format(new Date(time)) : '');
/** `24 Feb, 14:05`. @param {string | null | undefined} time */
export const momentName = (time) => (time ? moment().format(new Date(time)) : '');

/** `5 minutes ago`. @param {string | null | undefined} time */
export function ago(time) {
  if (!time) return '';
  const seconds = (new Date(time).getTime() - Date.now()) / 1000;
  if (Math.abs(seconds) < 60) return t.app.now;
  const steps = /** @type {[Intl.RelativeTimeFormatUnit, number][]} */ ([['day', 86_400], ['hour', 3_600], ['minute', 60]]);
  const [unit, size] = steps.find(([, one]) => Math.abs(seconds) >= one) ?? ['minute', 60];
  return Math.abs(seconds) > 6 * 86_400 ? momentName(time) : since().format(Math.round(seconds / size), unit);
}
