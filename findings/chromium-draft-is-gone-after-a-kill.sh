#!/usr/bin/env bash
# Guess: what a page has written with localStorage.setItem or document.cookie, and reads back, is out of the page's hands and
#   survives when the browser is killed or crashes, as IndexedDB's data does.
# Seen: for some five seconds localStorage lives in the browser's memory alone, for more than twelve a cookie does; SIGKILL loses
#   them without a trace. IndexedDB (after `complete`), the Cache API and the origin's private files survive a kill at once.
# Why it matters: "unsaved words go to localStorage on each key" is the usual draft. Where the system kills browsers to
#   have their memory, it loses the last seconds, the very words that were not sent. Drafts belong in IndexedDB.
source "$(dirname "$0")/support/common.sh"
source "$support/chromium.sh"
script <<'JAVASCRIPT'
import fs from 'node:fs';
import { expect, pause, profile, serve } from './rig.mjs';

const site = await serve();

const write = async () => {
  localStorage.setItem('draft', 'words');
  document.cookie = 'draft=words; max-age=99999';
  await new Promise((done) => {
    const request = indexedDB.open('drafts', 1);
    request.onupgradeneeded = () => request.result.createObjectStore('drafts');
    request.onsuccess = () => {
      const change = request.result.transaction('drafts', 'readwrite');
      change.objectStore('drafts').put('words', 'draft');
      change.oncomplete = done;
    };
  });
  await (await caches.open('drafts')).put('/draft', new Response('words'));
  const file = await (await navigator.storage.getDirectory()).getFileHandle('draft', { create: true });
  const stream = await file.createWritable();
  await stream.write('words');
  await stream.close();
};

const read = async () => ({
  localStorage: localStorage.getItem('draft'),
  cookie: document.cookie,
  indexedDB: await new Promise((done) => {
    const request = indexedDB.open('drafts', 1);
    request.onupgradeneeded = () => request.result.createObjectStore('drafts');
    request.onsuccess = () => {
      const found = request.result.transaction('drafts').objectStore('drafts').get('draft');
      found.onsuccess = () => done(found.result ?? null);
    };
  }),
  caches: (await (await caches.match('/draft'))?.text()) ?? null,
  files: await navigator.storage.getDirectory().then((root) => root.getFileHandle('draft'))
    .then((handle) => handle.getFile()).then((file) => file.text()).catch((error) => error.name),
});

function killAll(folder) {
  for (const id of fs.readdirSync('/proc').filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)) {
    try {
      if (fs.readFileSync(`/proc/${id}/cmdline`, 'utf8').includes(folder)) process.kill(Number(id), 'SIGKILL');
    } catch { /* it has ended */ }
  }
}

async function survivors(wait) {
  const folder = fs.mkdtempSync(`${process.env.TMPDIR}/profile-`);
  let browser = await profile(folder);
  let page = await browser.newPage();
  await page.goto(site.origin);
  await page.evaluate(write);
  await pause(wait);
  killAll(folder);
  await pause(1000);
  await browser.close().catch(() => {});
  for (const lock of ['SingletonLock', 'SingletonSocket', 'SingletonCookie']) fs.rmSync(`${folder}/${lock}`, { force: true });
  browser = await profile(folder);
  page = await browser.newPage();
  await page.goto(site.origin);
  const found = await page.evaluate(read);
  await browser.close();
  console.log(`killed ${wait / 1000} s after writing:`, JSON.stringify(found));
  return found;
}

const soon = await survivors(1000);
const later = await survivors(12_000);
site.close();
expect([soon.indexedDB, soon.caches, soon.files].every((text) => text === 'words'), 'IndexedDB, caches or files are lost');
expect(soon.localStorage === null, 'localStorage survives a kill after one second');
expect(soon.cookie === '' && later.cookie === '', 'a cookie survives a kill within twelve seconds');
expect(later.localStorage === 'words', 'localStorage is still not on disk after twelve seconds');
JAVASCRIPT
