/**
 * Service worker: keeps the page's own files, so that the page opens while the daemon is away. It keeps
 * nothing of the vault (`lib/seen.js` does), and answers no call of the API.
 */

const CACHE = 'page-{version}';
const FILES = /** @type {string[]} */ ([/* files */]);
const own = /** @type {any} */ (self);

own.addEventListener('install', (/** @type {any} */ event) => {
  event.waitUntil(caches.open(CACHE).then((cache) => cache.addAll(['/', ...FILES])).then(() => own.skipWaiting()));
});

own.addEventListener('activate', (/** @type {any} */ event) => {
  event.waitUntil(dropOthers().then(() => own.clients.claim()));
});

own.addEventListener('fetch', (/** @type {any} */ event) => {
  const { origin, pathname } = new URL(event.request.url);
  if (event.request.method !== 'GET' || origin !== location.origin) return;
  if (event.request.mode === 'navigate' && pathname === '/') event.respondWith(page(event.request));
  else if (pathname.startsWith('/web/')) event.respondWith(file(event.request));
});

async function dropOthers() {
  const names = await caches.keys();
  await Promise.all(names.filter((name) => name.startsWith('page-') && name !== CACHE).map((name) => caches.delete(name)));
}

/** The daemon's page while it answers, so that an update is seen at once. @param {Request} request */
async function page(request) {
  let answer;
  try {
    answer = await fetch(request);
    if (answer.status < 500) return answer;
  } catch {
    // It is away; what is kept is shown.
  }
  return await caches.match('/') ?? answer ?? Response.error();
}

/** A file's address holds a digest, so what is kept is right. @param {Request} request */
const file = async (request) => await caches.match(request) ?? fetch(request);
