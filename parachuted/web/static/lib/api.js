/** API: asks the daemon, with the key that this browser was given, if any. */

import { forgetSeen, orSeen } from './seen.js';

const KEY = 'parachute.key';

/** An answer other than success: `status` 0 means that the daemon could not be reached. */
export class ApiError extends Error {
  /**
   * @param {number} status
   * @param {string} message
   * @param {any} [answer] what the daemon said, such as the texts of a conflict
   */
  constructor(status, message, answer) {
    super(message);
    this.status = status;
    this.answer = answer;
  }
}

/** Whether the key is kept by that name. @param {string | null} name */
export const isKeyName = (name) => name === KEY;

/** @returns {string} the key; empty: none */
export const heldKey = () => localStorage.getItem(KEY) ?? '';

/** What was seen with another key is forgotten. @param {string} key empty: forget it */
export function holdKey(key) {
  if (key !== heldKey()) forgetSeen();
  if (key) localStorage.setItem(KEY, key);
  else localStorage.removeItem(KEY);
}

/** @type {(status: number) => void} */
let tellRefused = () => {};

/** @param {(status: number) => void} listener is called when a key is refused (401) */
export function onRefused(listener) {
  tellRefused = listener;
}

/** @returns {Record<string, string>} */
export const keyHeaders = () => (heldKey() ? { Authorization: `Bearer ${heldKey()}` } : {});

/**
 * A path of the vault, as it stands in an address.
 * @param {string} path
 */
export const inAddress = (path) => path.split('/').map(encodeURIComponent).join('/');

/**
 * @typedef {object} Asked
 * @property {Record<string, string | number | boolean | string[] | null | undefined>} [query]
 * @property {any} [body] sent as JSON; a Blob or Uint8Array as it is
 * @property {Record<string, string>} [headers]
 * @property {AbortSignal} [signal]
 */

/**
 * Sends a request. Throws ApiError.
 * @param {string} method
 * @param {string} path
 * @param {Asked} [asked]
 * @returns {Promise<Response>}
 */
export async function send(method, path, asked = {}) {
  const headers = { ...keyHeaders(), ...asked.headers };
  let body = asked.body;
  if (body !== undefined && !(body instanceof Blob) && !(body instanceof Uint8Array)) {
    headers['Content-Type'] ??= 'application/json';
    body = typeof body === 'string' ? body : JSON.stringify(body);
  }
  const address = addressOf(path, asked.query);
  let response;
  try {
    response = await fetch(address, {
      method, headers, body, signal: asked.signal, credentials: 'omit', redirect: 'error',
    });
  } catch (error) {
    if (asked.signal?.aborted) throw error;
    throw new ApiError(0, 'The daemon cannot be reached.');
  }
  if (response.ok) return response;
  const answer = await response.json().catch(() => null);
  if (response.status === 401) tellRefused(401);
  throw new ApiError(response.status, answer?.message ?? `The daemon answered ${response.status}.`, answer);
}

/**
 * The same path. Throws ApiError where a name in it, which a note or a link may have said, is `.` or
 * `..`: browsers would ask for another path instead.
 * @param {string} path
 */
export function straight(path) {
  const names = path.split('?')[0].split('/');
  if (names.some((one) => /^(\.|%2e){1,2}$/i.test(one))) throw new ApiError(404, 'There is no such place.');
  return path;
}

/**
 * @param {string} path
 * @param {Asked['query']} [query]
 */
function addressOf(path, query = {}) {
  straight(path);
  const pairs = Object.entries(query).flatMap(([name, value]) =>
    (Array.isArray(value) ? value : [value])
      .filter((one) => one !== undefined && one !== null && one !== '')
      .map((one) => [name, String(one)]));
  return pairs.length ? `${path}?${new URLSearchParams(pairs)}` : path;
}

/**
 * Sends a request, and reads the JSON that answers it. Throws ApiError.
 * @param {string} method
 * @param {string} path
 * @param {Asked} [asked]
 * @returns {Promise<any>}
 */
export const ask = async (method, path, asked) => (await send(method, path, asked)).json();

/** While the daemon is away, what it answered last time. @type {(path: string, query?: Asked['query'], signal?: AbortSignal) => Promise<any>} */
export const get = (path, query, signal) => orSeen(path, addressOf(path, query), () => ask('GET', path, { query, signal }));

/** @type {(path: string, body?: any) => Promise<any>} */
export const post = (path, body = {}) => ask('POST', path, { body });
