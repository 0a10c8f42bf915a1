/** Modules: which of them run, as far as this caller may know. */

import { effect, signal } from '../vendor/view.js';
import { get } from './api.js';
import { listen } from './events.js';
import { isOpen, state } from './session.js';

/** The names of those that can be asked; null while that is not known. One that failed once mostly answers, or else says why. */
export const running = signal(/** @type {Set<string> | null} */ (null));
/** What `GET /api/health?detailed=true` said last. */
export const health = signal(/** @type {any} */ (null));

export async function lookAtHealth() {
  try {
    const told = await get('/api/health', { detailed: true });
    if (!told.modules) return; // it does not say so before this browser is signed in
    health.value = told;
    running.value = new Set((told.modules ?? []).filter((/** @type {any} */ one) => one.status === 'running' || one.status === 'failed').map((/** @type {any} */ one) => one.name));
  } catch {
    if (isOpen.peek()) running.value ??= new Set(); // the notice of the lost connection says why
  }
}

/** @type {Promise<void> | null} */
let early = null;
effect(() => {
  if (state.value === 'opening') early = lookAtHealth(); // beside the question who this is, not after it
  else if (state.value === 'open') Promise.resolve(early).then(() => running.peek() ?? lookAtHealth());
  else running.value = early = null;
});
listen(['module.', 'vault.problem'], lookAtHealth);
