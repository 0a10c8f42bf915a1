#!/usr/bin/env bash
# Guess: a page that one leaves gives up its EventSource; a page with an open one is not kept for the Back button.
# Seen: it is kept, with its stream open. One tab that went through six such pages holds all six connections that HTTP/1.1
#   has for a site: the seventh page waits for a free one, in any tab, while the server sees nothing of it. Coming back, the
#   page goes on with the same stream: what was sent meanwhile arrives then, in order, on a connection that never broke.
# Why it matters: notes as real pages, each with a live stream, stop loading after six clicks, and it looks like a daemon that
#   hangs. Close the stream on `pagehide` and open it on `pageshow`. On the server such a client looks alive but reads nothing.
# Playwright's own browser settings switch these kept pages off, so that its tests never meet this.
source "$(dirname "$0")/support/common.sh"
source "$support/chromium.sh"
script <<'JAVASCRIPT'
import { expect, launch, pause, serve } from './rig.mjs';

const site = await serve();
const streams = [];
site.routes['/stream'] = (request, response) => {
  streams.push(response);
  response.on('close', () => streams.splice(streams.indexOf(response), 1));
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  response.write('data: first\n\n');
};
const note = (closing) => `<title>note</title><script>
  window.got = []; window.stream = new EventSource('/stream');
  stream.onmessage = (event) => got.push(event.data);
  addEventListener('pageshow', (event) => event.persisted && got.push('back'));
  ${closing ? "addEventListener('pagehide', () => stream.close());" : ''}</script>`;
site.routes['/note'] = (request, response) => response.writeHead(200, { 'content-type': 'text/html' }).end(note(false));
site.routes['/closing'] = (request, response) => response.writeHead(200, { 'content-type': 'text/html' }).end(note(true));
const loads = (page, path) => page.goto(site.origin + path, { timeout: 5000 }).then(() => true, () => false);

async function visit(path) {
  const browser = await launch({ ignoreDefaultArgs: ['--disable-back-forward-cache'] });
  const context = await browser.newContext();
  const page = await context.newPage();
  const loaded = [];
  for (let number = 1; number <= 7; number += 1) {
    loaded.push(await loads(page, `${path}?${number}`));
    await pause(300);
  }
  const open = streams.length;
  const otherTab = await loads(await context.newPage(), '/plain');
  await browser.close();
  return { loaded, open, otherTab };
}

const kept = await visit('/note');
console.log('seven notes in one tab, loaded within 5 s:', kept.loaded.join(' '), '| streams open at the server:', kept.open);
console.log('a plain page in another tab loads:', kept.otherTab);
const closing = await visit('/closing');
console.log('with stream.close() on pagehide:          ', closing.loaded.join(' '), '| streams open at the server:', closing.open);

const browser = await launch({ ignoreDefaultArgs: ['--disable-back-forward-cache'] });
const page = await (await browser.newContext()).newPage();
await page.goto(`${site.origin}/note`);
await pause(300);
await page.goto(`${site.origin}/plain`);
await pause(300);
streams[0].write('data: meanwhile\n\n');
await pause(300);
await page.evaluate(() => history.back());
await pause(1000);
const got = await page.evaluate(() => window.got);
console.log('events of a page that was left and came back:', got.join(', '));
await browser.close();
site.close();
expect(kept.loaded.slice(0, 6).every(Boolean) && !kept.loaded[6] && !kept.otherTab && kept.open === 6, 'six pages left behind no longer hold all connections');
expect(closing.loaded.every(Boolean), 'closing the stream on pagehide no longer helps');
expect(got.join() === 'first,back,meanwhile', 'a page that comes back has other events');
JAVASCRIPT
