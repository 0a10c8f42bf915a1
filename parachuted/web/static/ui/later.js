/** Later: a part of the page that is loaded when it is first shown. */

import { useEffect, useState } from '../vendor/view.js';
import { t } from '../lib/strings.js';

/**
 * @template T
 * @param {() => Promise<T>} load
 * @returns {[T | null, Error | null]} the file once it is there, or why it could not be loaded
 */
export function useLater(load) {
  const [file, setFile] = useState(/** @type {T | null} */ (null));
  const [error, setError] = useState(/** @type {Error | null} */ (null));
  useEffect(() => { load().then((found) => setFile(() => found), () => setError(new Error(t.app.updated))); }, []);
  return [file, error];
}
