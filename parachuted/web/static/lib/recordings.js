/**
 * Recordings: what was recorded and not sent yet, in this browser's database, piece by piece while it is
 * recorded, so that a page that is closed or a browser that dies loses a second at most.
 */

const NAME = 'parachute.recordings';
const LOCK = 'parachute.recording.';

/**
 * `at`: the time of the entry that it becomes.
 * @typedef {{id: string, type: 'audio' | 'photo', name: string, mime: string, at: string}} Recording
 */

/** @type {Promise<IDBDatabase> | null} */
let opened = null;

const open = () => {
  opened ??= new Promise((resolve, reject) => {
    const asked = indexedDB.open(NAME, 1);
    asked.onupgradeneeded = () => {
      asked.result.createObjectStore('recordings', { keyPath: 'id' });
      asked.result.createObjectStore('pieces', { autoIncrement: true }).createIndex('of', 'of');
    };
    asked.onsuccess = () => resolve(asked.result);
    asked.onerror = () => { opened = null; reject(asked.error); };
  });
  return opened;
};

/**
 * @template T
 * @param {IDBTransactionMode} mode @param {(store: (name: string) => IDBObjectStore) => IDBRequest<T> | void} act
 * @returns {Promise<T | undefined>} once it is on the disk
 */
async function within(mode, act) {
  const base = await open();
  return new Promise((resolve, reject) => {
    const change = base.transaction(['recordings', 'pieces'], mode);
    const asked = act((name) => change.objectStore(name));
    change.oncomplete = () => resolve(asked?.result);
    change.onabort = () => reject(change.error);
  });
}

/** Begins one, without its pieces. @param {Recording} recording */
export const keepRecording = (recording) => within('readwrite', (store) => { store('recordings').put(recording); });

/**
 * While `during` goes on, no other page takes it for one that was left.
 * @template T
 * @param {string} id @param {() => Promise<T>} during @returns {Promise<T>}
 */
export const hold = (id, during) => (navigator.locks ? navigator.locks.request(LOCK + id, during) : during());

/** @param {string} id @param {Blob} piece */
export const keepPiece = (id, piece) => within('readwrite', (store) => { store('pieces').add({ of: id, piece }); });

/** The whole of one as far as it was kept. @param {Recording} recording */
export async function wholeOf(recording) {
  const pieces = await within('readonly', (store) => store('pieces').index('of').getAll(recording.id)) ?? [];
  return new Blob(pieces.map((one) => one.piece), { type: recording.mime });
}

/** @param {string} id */
export const dropRecording = (id) => within('readwrite', (store) => {
  store('recordings').delete(id);
  const asked = store('pieces').index('of').openKeyCursor(IDBKeyRange.only(id));
  asked.onsuccess = () => {
    if (!asked.result) return;
    store('pieces').delete(asked.result.primaryKey);
    asked.result.continue();
  };
});

/** Those that no page is at work on. @returns {Promise<Recording[]>} */
export async function keptRecordings() {
  const kept = await within('readonly', (store) => store('recordings').getAll()) ?? [];
  const held = new Set(((await navigator.locks?.query())?.held ?? []).map((one) => one.name));
  return kept.filter((one) => !held.has(LOCK + one.id));
}
