/** First steps: whether this browser leads a person through them: where no module is there yet. */

import { computed, signal } from '../vendor/view.js';
import { health } from './modules.js';
import { may } from './session.js';

const NAME = 'parachute.first-steps';
const wasSeen = signal(localStorage.getItem(NAME) !== null);

export const areFirstStepsDue = computed(() =>
  !wasSeen.value && health.value?.modules?.length === 0 && may('system', 'admin') && may('vault', 'write'));

/** They are not shown by themselves again in this browser. */
export function endFirstSteps() {
  localStorage.setItem(NAME, 'seen');
  wasSeen.value = true;
}
