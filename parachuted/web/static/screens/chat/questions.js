/** Questions: what an agent asks, permissions too, answered where it asks. */

import { html, useState } from '../../vendor/view.js';
import { ApiError, post } from '../../lib/api.js';
import { t } from '../../lib/strings.js';
import { toastProblem } from '../../lib/toasts.js';
import { Button } from '../../ui/parts.js';

/** @param {{session: string, questions: import('./turn.js').Question[], onAnswered: () => void}} props */
export function Questions({ session, questions, onAnswered }) {
  const [answered, setAnswered] = useState(/** @type {string[]} */ ([]));
  return questions.filter((one) => !answered.includes(one.requestId)).map((one) => html`
    <${Question} key=${one.requestId} session=${session} of=${one} onDone=${() => { setAnswered([...answered, one.requestId]); onAnswered(); }} />`);
}

/** @param {{session: string, of: import('./turn.js').Question, onDone: () => void}} props */
function Question({ session, of, onDone }) {
  const [answers, setAnswers] = useState(/** @type {Record<string, string | string[]>} */ ({}));
  const isWhole = of.questions.every((one) => answers[one.question]?.length);
  const send = async (/** @type {Record<string, string | string[]>} */ chosen) => {
    try {
      await post(`/api/chat/${encodeURIComponent(session)}/answer`, { request_id: of.requestId, answers: chosen });
      onDone();
    } catch (error) {
      if (error instanceof ApiError && error.status === 404) onDone(); // answered elsewhere
      else toastProblem(error);
    }
  };
  const choose = (/** @type {any} */ one, /** @type {string} */ label) => {
    if (!one.multiSelect && of.questions.length === 1) return send({ [one.question]: label });
    const before = /** @type {string[]} */ (answers[one.question] ?? []);
    const next = one.multiSelect ? (before.includes(label) ? before.filter((other) => other !== label) : [...before, label]) : label;
    return setAnswers({ ...answers, [one.question]: next });
  };
  return html`
    <section class="card question" role="alert">
      ${of.questions.map((one) => html`
        <fieldset key=${one.question}>
          <legend><strong>${one.header || (of.kind === 'permission' ? t.chat.permission : t.chat.question)}</strong> ${one.question}</legend>
          <div class="row">${one.options.map((option) => html`
            <${Button} key=${option.label} title=${option.description} aria-pressed=${[answers[one.question]].flat().includes(option.label)} onClick=${() => choose(one, option.label)}>${option.label}<//>`)}</div>
          ${of.kind !== 'permission' && html`<label>${t.chat.otherAnswer}<input onChange=${(/** @type {any} */ event) => setAnswers({ ...answers, [one.question]: event.target.value })} /></label>`}
        </fieldset>`)}
      ${isWhole && html`<${Button} kind="main" onClick=${() => send(answers)}>${t.chat.answer}<//>`}
    </section>`;
}
