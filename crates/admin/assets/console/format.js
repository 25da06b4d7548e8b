// @ts-check
// Numbers, times and counts in words.

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];
const WHOLE = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const SHORT = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 });

/**
 * 1234567 → 1,234,567
 * @param {number | null | undefined} count
 */
export const number = (count) => (count === null || count === undefined ? '–' : WHOLE.format(count));

/**
 * 1234567 → 1.2M
 * @param {number} count
 */
export const short = (count) => SHORT.format(count);

/**
 * "1 detail", "3 details", "2 addresses"
 * @param {number} count
 * @param {string} one
 * @param {string} [many]
 */
export const counted = (count, one, many = `${one}s`) => `${number(count)} ${count === 1 ? one : many}`;

/**
 * "a, b and c"
 * @param {string[]} words
 */
export const listed = (words) => (words.length < 2 ? words.join('') : `${words.slice(0, -1).join(', ')} and ${words.at(-1)}`);

/** @param {number} part */
const two = (part) => String(part).padStart(2, '0');

/**
 * 16 Nov 2026, of a time in UTC
 * @param {string | null | undefined} time
 */
export function day(time) {
  if (!time) return '–';
  const at = new Date(time);
  return Number.isNaN(at.valueOf()) ? String(time) : `${at.getUTCDate()} ${MONTHS[at.getUTCMonth()]} ${at.getUTCFullYear()}`;
}

/**
 * 16 Nov, of a time in UTC
 * @param {string | null | undefined} time
 */
export const shortDay = (time) => day(time).replace(/ \d+$/, '');

/**
 * 16 Nov 2026, 10:34 UTC
 * @param {string | null | undefined} time
 */
export function moment(time) {
  if (!time) return '–';
  const at = new Date(time);
  return Number.isNaN(at.valueOf()) ? String(time) : `${day(time)}, ${two(at.getUTCHours())}:${two(at.getUTCMinutes())} UTC`;
}

/**
 * 2026-11-16 10:34:07
 * @param {string} time
 */
export function exact(time) {
  const at = new Date(time);
  return Number.isNaN(at.valueOf()) ? String(time) : at.toISOString().slice(0, 19).replace('T', ' ');
}

/**
 * 2026-11-16, for a date field
 * @param {Date} date
 */
export const isoDay = (date) => date.toISOString().slice(0, 10);

const UNITS = [{ name: 'day', length: 86_400 }, { name: 'hour', length: 3600 }, { name: 'minute', length: 60 }];

/**
 * "in 3 days", "2 hours ago"
 * @param {string | null | undefined} time
 */
export function distance(time, now = Date.now()) {
  if (!time) return '';
  const seconds = (new Date(time).valueOf() - now) / 1000;
  const size = Math.abs(seconds);
  const unit = UNITS.find(({ length }) => size >= length);
  if (!unit) return seconds < 0 ? 'just now' : 'in less than a minute';
  const text = counted(Math.floor(size / unit.length), unit.name);
  return seconds < 0 ? `${text} ago` : `in ${text}`;
}

/** @type {Record<string, string>} */
const SPANS = { s: 'second', m: 'minute', h: 'hour', d: 'day', w: 'week' };

/**
 * "365d" → "365 days"
 * @param {string} text
 */
export function span(text) {
  const [, count, unit] = /^(\d+)([smhdw])$/.exec(text) ?? [];
  return unit ? counted(Number(count), SPANS[unit]) : String(text);
}

/**
 * 640 µs, 1.2 ms, 3 s
 * @param {number} time
 */
export function micros(time) {
  if (time < 1000) return `${Math.round(time)} µs`;
  if (time < 1_000_000) return `${(time / 1000).toFixed(time < 10_000 ? 1 : 0)} ms`;
  return `${(time / 1_000_000).toFixed(1)} s`;
}

/**
 * 12.4 MB
 * @param {number} size
 */
export function bytes(size) {
  const units = ['bytes', 'KB', 'MB', 'GB', 'TB'];
  let rest = size;
  let unit = 0;
  while (rest >= 1000 && unit < units.length - 1) { rest /= 1000; unit += 1; }
  return unit === 0 ? counted(size, 'byte') : `${rest.toFixed(rest < 10 ? 1 : 0)} ${units[unit]}`;
}

/** @type {Record<string, string>} */
const KINDS = { phone: 'phone number', email: 'e-mail address', profile: 'profile' };

/**
 * "phone number", "e-mail address"
 * @param {string} kind
 */
export const kindName = (kind) => KINDS[kind] ?? kind;

/** @param {string} text */
export const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);
