/**
 * Seen: what the daemon answered lately, kept in this browser, so that it can be read while the daemon
 * is away. It goes when this browser's key changes, is revoked, or someone signs out.
 */

const NAME = 'parachute';
const STORE = 'seen';
const MOST = 500; // answers; the oldest go first
const PAUSE_MS = 500;
const KEPT = /^\/api\/(auth\/me$|health$|ls$|chat$|watches$|suggestions$|runs(\/|$)|chat\/|notes\/|daily\/|brain\/)/;
const NEVER = /\/(stream-status|pending-questions|uploads|graph)\b/;

/** @type {Map<string, any>} answers that are not in the database yet */
const fresh = new Map();
/** @type {Promise<IDBDatabase> | null} */
let opened = null;
let timer = 0;
let life = 0; // of what is kept; an answer that was asked for in an earlier one is not kept

/**
 * What `ask` answers; while the daemon is away, what it answered last time.
 * @template T
 * @param {string} path of the API
 * @param {string} address the path, with what is asked of it
 * @param {() => Promise<T>} ask
 * @param {boolean} [mayBeOld] false: what it answered last time is not wanted
 * @returns {Promise<T>}
 */
export async function orSeen(path, address, ask, mayBeOld = true) {
  const isKept = KEPT.test(path) && !NEVER.test(path);
  const began = life;
  try {
    const answer = await ask();
    if (isKept && began === life) keep(address, answer);
    return answer;
  } catch (error) {
    const isAway = /** @type {any} */ (error)?.status === 0;
    const kept = isKept && isAway && mayBeOld && began === life ? await find(address) : undefined;
    if (kept === undefined) throw error;
    return kept;
  }
}

/** Forgets all of it, in every tab of this browser. */
export async function forgetSeen() {
  life += 1;
  fresh.clear();
  await change((store) => store.clear());
}

/** @param {string} address @param {any} answer */
function keep(address, answer) {
  fresh.set(address, answer);
  timer ||= setTimeout(write, PAUSE_MS);
}

async function write() {
  timer = 0;
  const entries = [...fresh];
  await change((store) => {
    for (const [address, answer] of entries) store.put({ address, answer, at: Date.now() });
    const counted = store.count();
    counted.onsuccess = () => prune(store, counted.result - MOST);
  });
  for (const [address, answer] of entries) if (fresh.get(address) === answer) fresh.delete(address);
}

/** @param {IDBObjectStore} store @param {number} count */
function prune(store, count) {
  if (count <= 0) return;
  let left = count;
  const walk = store.index('at').openCursor();
  walk.onsuccess = () => {
    if (!walk.result || left <= 0) return;
    left -= 1;
    walk.result.delete();
    walk.result.continue();
  };
}

/** @param {string} address @returns {Promise<any>} */
async function find(address) {
  if (fresh.has(address)) return fresh.get(address);
  const database = await open().catch(() => null);
  if (!database) return undefined;
  return new Promise((resolve) => {
    const asked = database.transaction(STORE).objectStore(STORE).get(address);
    asked.onsuccess = () => resolve(asked.result?.answer);
    asked.onerror = () => resolve(undefined);
  });
}

/** Does it in one transaction. A browser that keeps nothing, such as in a private window, is fine. @param {(store: IDBObjectStore) => void} act */
async function change(act) {
  const database = await open().catch(() => null);
  if (!database) return;
  await new Promise((resolve) => {
    const transaction = database.transaction(STORE, 'readwrite');
    transaction.oncomplete = transaction.onabort = transaction.onerror = resolve;
    act(transaction.objectStore(STORE));
  });
}

/** @returns {Promise<IDBDatabase>} */
function open() {
  opened ??= new Promise((resolve, reject) => {
    const asked = indexedDB.open(NAME, 1);
    asked.onupgradeneeded = () => asked.result.createObjectStore(STORE, { keyPath: 'address' }).createIndex('at', 'at');
    asked.onsuccess = () => resolve(asked.result);
    asked.onerror = () => reject(asked.error);
  });
  return opened;
}
