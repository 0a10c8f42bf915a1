#!/usr/bin/env bash
# Guess: `Clear-Site-Data: "cookies", "storage"` clears what belongs to the origin that sends it, all of it, at a navigation.
# Seen: it works on any answer, a 401 to fetch() too. Cookies go for the whole host: another program's, on another port of
#   127.0.0.1, is logged out, while its localStorage stays. sessionStorage goes in *every* tab of the origin. And the page that
#   is open lives on: its IndexedDB and cache handles are dead, but a file handle taken before writes its file into the empty
#   storage again, where the next start finds it.
# Why it matters: a "sign out and forget" of a daemon on loopback signs people out of everything else on loopback, and what it
#   meant to erase can come back from an open tab. Clear "storage" alone, keep keys out of cookies, reload all tabs.
source "$(dirname "$0")/support/common.sh"
source "$support/chromium.sh"
script <<'JAVASCRIPT'
import { expect, launch, serve } from './rig.mjs';

const ours = await serve();
const other = await serve();
other.routes['/'] = (request, response) => response.writeHead(200, { 'content-type': 'text/html', 'set-cookie': 'login=other' }).end('other');
ours.routes['/out'] = (request, response) => response.writeHead(401, { 'clear-site-data': '"cookies", "storage"' }).end();
const browser = await launch();
const context = await browser.newContext();
const [otherPage, tab, page] = [await context.newPage(), await context.newPage(), await context.newPage()];
await otherPage.goto(other.origin);
await otherPage.evaluate(() => localStorage.setItem('theme', 'dark'));
await tab.goto(ours.origin);
await tab.evaluate(() => sessionStorage.setItem('words', 'of this tab'));
await page.goto(ours.origin);

const open = await page.evaluate(async () => {
  localStorage.setItem('key', '1');
  const root = await navigator.storage.getDirectory();
  const file = await root.getFileHandle('note', { create: true });
  const cache = await caches.open('notes');
  const database = await new Promise((done) => {
    const request = indexedDB.open('notes', 1);
    request.onupgradeneeded = () => request.result.createObjectStore('notes');
    request.onsuccess = () => done(request.result);
  });
  const { status } = await fetch('/out');
  await new Promise((done) => setTimeout(done, 1000));
  const attempt = (action) => Promise.resolve().then(action).then(() => 'works', (error) => error.name);
  return {
    status,
    localStorage: localStorage.getItem('key'),
    database: await attempt(() => database.transaction('notes', 'readwrite')),
    cache: await attempt(() => cache.put('/note', new Response('text'))),
    file: await attempt(async () => {
      const stream = await file.createWritable();
      await stream.write('back again');
      await stream.close();
    }),
  };
});
console.log('the page that got the answer, handles from before:', JSON.stringify(open));
const session = await tab.evaluate(() => sessionStorage.getItem('words'));
console.log('sessionStorage of another tab:', session);
const later = await context.newPage();
await later.goto(ours.origin);
const file = await later.evaluate(() => navigator.storage.getDirectory().then((root) => root.getFileHandle('note'))
  .then((handle) => handle.getFile()).then((found) => found.text()).catch((error) => error.name));
console.log('the file, from a new tab:', file);
const neighbour = await otherPage.evaluate(() => ({ cookie: document.cookie, theme: localStorage.getItem('theme') }));
console.log('another port of 127.0.0.1:', JSON.stringify(neighbour));
await browser.close();
ours.close();
other.close();
expect(open.status === 401 && open.localStorage === null, 'the header on a 401 to fetch() no longer clears');
expect(open.database === 'InvalidStateError' && open.cache === 'NotFoundError', 'handles of IndexedDB or caches live on');
expect(open.file === 'works' && file === 'back again', 'a file handle from before no longer writes');
expect(session === null, 'sessionStorage of another tab is kept');
expect(neighbour.cookie === '' && neighbour.theme === 'dark', 'the other port keeps its cookie, or loses its storage');
JAVASCRIPT
