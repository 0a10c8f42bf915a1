#!/usr/bin/env bash
# Guess: a Content-Security-Policy on a file that is no HTML does nothing: `default-src 'none'; sandbox` on everything that comes
#   out of the folder is free of cost.
# Seen: opened by itself, a recording with `default-src 'none'` or with `sandbox` is an empty player with no error that script
#   could read: the browser wraps the file in a page of its own under the file's policy, in which that very file is a foreign
#   source (sandbox) or a forbidden one. The same file in an <audio> of another page plays; a picture is shown both ways.
# Why it matters: links to voice notes and films in a served folder look broken only when they are followed. `default-src
#   'none'; media-src 'self'` without `sandbox` plays them; give `sandbox` to what can hold script (HTML, SVG, XML).
source "$(dirname "$0")/support/common.sh"
source "$support/chromium.sh"
script <<'JAVASCRIPT'
import { expect, launch, pause, serve } from './rig.mjs';

const sound = Buffer.alloc(44 + 8000, 128); // one second of silence
sound.write('RIFF', 0);
sound.writeUInt32LE(36 + 8000, 4);
sound.write('WAVEfmt ', 8);
[16, 0x10001, 8000, 8000, 0x80001].forEach((word, place) => sound.writeUInt32LE(word, 16 + 4 * place));
sound.write('data', 36);
sound.writeUInt32LE(8000, 40);
const picture = Buffer.from('R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7', 'base64');

const site = await serve();
const browser = await launch();
const page = await (await browser.newContext()).newPage();
const table = {};
for (const policy of ['', "default-src 'none'", 'sandbox', "default-src 'none'; media-src 'self'"]) {
  const give = (type, body) => (request, response) =>
    response.writeHead(200, { 'content-type': type, ...(policy && { 'content-security-policy': policy }) }).end(body);
  site.routes['/voice.wav'] = give('audio/wav', sound);
  site.routes['/dot.gif'] = give('image/gif', picture);
  await page.goto(site.origin);
  const element = await page.evaluate(() => new Promise((done) => {
    const audio = new Audio('/voice.wav');
    audio.onloadeddata = () => done('plays');
    audio.onerror = () => done('error');
  }));
  await page.goto(`${site.origin}/voice.wav`);
  await pause(700);
  const direct = await page.evaluate(() => {
    const { readyState, error } = document.querySelector('video, audio');
    return readyState === 4 ? 'plays' : `empty, error ${error}`;
  });
  await page.goto(`${site.origin}/dot.gif`);
  const image = await page.evaluate(() => (document.images[0].naturalWidth ? 'shown' : 'empty'));
  table[policy] = { 'audio element': element, 'audio opened': direct, 'picture opened': image };
}
console.table(table);
await browser.close();
site.close();
const column = (name) => Object.values(table).map((row) => row[name]).join('; ');
expect(column('audio element') === 'plays; plays; plays; plays', 'an audio element heeds the policy of the file');
expect(column('audio opened') === 'plays; empty, error null; empty, error null; plays', 'a recording that is opened by itself behaves in another way');
expect(column('picture opened') === 'shown; shown; shown; shown', 'pictures are no longer shown');
JAVASCRIPT
