/** Workers: scripts of the page's own that compute beside it. The page's policy lets only these be started. */

/** @type {{createScriptURL: (address: string) => any} | undefined} */
const policy = /** @type {any} */ (window).trustedTypes?.createPolicy('workers', { createScriptURL: ownAddress });

/**
 * Starts a worker of a file of the page.
 * @param {string} name such as `screens/brain/layout-worker.js`
 */
export function startWorker(name) {
  const address = ownAddress(new URL(`../${name}`, import.meta.url).href);
  return new Worker(policy ? policy.createScriptURL(address) : address, { type: 'module' });
}

/** Lets the page open while the daemon is away; browsers allow it only where the connection is encrypted, or on this machine. */
export async function startServiceWorker() {
  const address = ownAddress(new URL('/service-worker.js', location.origin).href);
  await navigator.serviceWorker?.register(policy ? policy.createScriptURL(address) : address, { scope: '/' });
}

/** The same address, if it is that of a file of the page. @param {string} address */
function ownAddress(address) {
  const { origin, pathname } = new URL(address);
  if (origin !== location.origin || !/^(\/web\/[0-9a-f]{16}\/[a-z/-]+|\/service-worker)\.js$/.test(pathname)) throw new TypeError(`${address} is not a script of the page`);
  return address;
}
