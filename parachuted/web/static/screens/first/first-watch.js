/** First watch: makes a note that watches another, saves that one, and shows what the run wrote. */

import { html, useState } from '../../vendor/view.js';
import { ApiError, ask, get, inAddress } from '../../lib/api.js';
import { useEvents } from '../../lib/events.js';
import { useLoad } from '../../lib/load.js';
import { address, noteAddress } from '../../lib/router.js';
import { t } from '../../lib/strings.js';
import { toastProblem } from '../../lib/toasts.js';
import { UnifiedDiff } from '../../ui/diff.js';
import { Button, Shown } from '../../ui/parts.js';

const TEXT = { 'Content-Type': 'text/markdown' };
const ONLY_NEW = { ...TEXT, 'If-None-Match': '*' };
const IS_THERE = [409, 412];

/** @param {{Step: any}} props */
export function FirstWatch({ Step }) {
  const [savedAt, setSavedAt] = useState('');
  const runs = useLoad((signal) => get('/api/runs', { limit: 20 }, signal), [savedAt]);
  useEvents(['run.'], runs.reload);
  const run = savedAt && runs.data?.runs.find((/** @type {any} */ one) => one.watcher === t.first.overview && one.started >= savedAt && one.wrote?.length);
  const begin = async () => {
    try {
      for (const [path, text] of [[t.first.plan, t.first.planText], [t.first.overview, t.first.overviewText]]) await make(path, text);
      const now = new Date();
      await ask('PUT', `/api/notes/${inAddress(t.first.plan)}`, { body: t.first.planNew(now.toTimeString().slice(0, 8)), headers: TEXT });
      setSavedAt(new Date(now.getTime() - 5_000).toISOString());
    } catch (error) {
      toastProblem(error);
    }
  };
  return html`<${Step} title=${t.first.watch} isDone=${Boolean(run)}>
    <p>${t.first.watchWhy}</p>
    ${!savedAt && html`<p class="row"><${Button} kind="main" onClick=${begin}>${t.first.watchDo}<//></p>`}
    ${savedAt && !run && html`<p role="status">${t.first.watchWaits}</p>`}
    ${run && html`<p role="status">${t.first.watchDone}</p><${Written} id=${run.id} />
      <p class="row"><a class="button" href=${address('runs', [run.id])}>${t.first.watchSee}</a><a class="button" href=${noteAddress(t.first.overview)}>${t.first.overview}</a></p>`}
  <//>`;
}

/** A note that is there stays as it is. @param {string} path @param {string} text */
async function make(path, text) {
  try {
    await ask('PUT', `/api/notes/${inAddress(path)}`, { body: text, headers: ONLY_NEW });
  } catch (error) {
    if (!(error instanceof ApiError) || !IS_THERE.includes(error.status)) throw error;
  }
}

/** @param {{id: string}} props */
function Written({ id }) {
  const diff = useLoad((signal) => get(`/api/runs/${encodeURIComponent(id)}/diff`, {}, signal), [id]);
  return html`<${Shown} of=${diff}>${(/** @type {any} */ found) => found.files.map((/** @type {any} */ one) => html`<${UnifiedDiff} key=${one.path} text=${one.diff ?? ''} />`)}<//>`;
}
