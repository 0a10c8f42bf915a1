# Sourced by scripts about Chromium: Debian's browser, driven by playwright-core, and rig.mjs for scripts with a server on
# loopback whose routes they fill.
need chromium
node_packages playwright-core@1.64.0
chromium --version 2>/dev/null

# script: runs the JavaScript on its stdin, for four minutes at most.
script() {
  (cd "$work/node" && cat >script.mjs && TMPDIR="$work" timeout 240 node script.mjs) ||
    changed "the lines above say what, or it did not end in time"
}

cat >"$work/node/rig.mjs" <<'JAVASCRIPT'
import http from 'node:http';
import { chromium } from 'playwright-core';

const args = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync'];
const options = { executablePath: '/usr/bin/chromium', headless: true, args };
export const launch = (more = {}) => chromium.launch({ ...options, ...more });
export const profile = (folder) => chromium.launchPersistentContext(folder, options);
export const pause = (ms) => new Promise((done) => setTimeout(done, ms));

/** A server on loopback; a path without a route is an empty page. */
export async function serve() {
  const routes = {};
  const page = (request, response) => response.writeHead(200, { 'content-type': 'text/html' }).end('<title>page</title>');
  const server = http.createServer((request, response) =>
    (routes[new URL(request.url, 'http://x').pathname] ?? page)(request, response));
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  return { routes, origin: `http://127.0.0.1:${server.address().port}`, close: () => { server.closeAllConnections(); server.close(); } };
}

/** Ends the script where `holds` is false. */
export function expect(holds, words) {
  if (holds) return;
  console.log('CHANGED:', words);
  process.exit(1);
}
JAVASCRIPT
