/** Message: one that was said, and the turn that goes on, with what its agent uses. */

import { html } from '../../vendor/view.js';
import { t } from '../../lib/strings.js';
import { clockTime } from '../../lib/times.js';
import { Icon } from '../../ui/icon.js';
import { Markdown } from '../../ui/markdown.js';
import { Button, IconButton, Tag } from '../../ui/parts.js';
import { PromptParts } from './prompt-parts.js';

/** @param {{message: any, fork?: (() => void) | null}} props `fork`: goes on from here in another conversation */
export const Message = ({ message, fork = null }) => html`
  <article class="message ${message.role}">
    <header><strong>${t.chat.roles[message.role] ?? message.role}</strong> <time class="soft" datetime=${message.timestamp}>${clockTime(message.timestamp)}</time>${fork && html` <${IconButton} icon="fork" label=${t.chat.fork} onClick=${fork} />`}</header>
    ${(typeof message.content === 'string' ? [{ type: 'text', text: message.content }] : message.content).map((/** @type {any} */ one, /** @type {number} */ index) => (one.type === 'tool_use'
      ? html`<${Tool} key=${index} name=${one.name} input=${one.input} result=${null} isError=${false} isOver=${true} />`
      : html`<${Markdown} key=${index} text=${one.text ?? ''} />`))}
  </article>`;

/** @param {{turn: import('./turn.js').Turn, retry: (() => void) | null}} props */
export const Going = ({ turn, retry }) => html`
  ${turn.asked && !turn.isOver && html`<article class="message user"><header><strong>${t.chat.roles.user}</strong></header><${Markdown} text=${turn.asked} /></article>`}
  <article class="message assistant">
    <header><strong>${t.chat.roles.assistant}</strong> ${!turn.isOver && html`<${Tag} kind="wait">${t.chat.answering}<//>`}</header>
    ${turn.prompt && html`<details class="tool"><summary><${Icon} name="brain" /><span>${t.chat.prompt}</span> <span class="soft">${t.chat.tokens(turn.prompt.totalPromptTokens ?? 0)}${turn.prompt.brain_context_loaded ? ` · ${t.chat.fromBrain(turn.prompt.brain_context_count)}` : ''}</span></summary><${PromptParts} told=${turn.prompt} /></details>`}
    ${turn.warnings.map((one, index) => html`<p class="soft" key=${index}>${one}</p>`)}
    ${turn.blocks.map((one, index) => (one.kind === 'tool'
      ? html`<${Tool} key=${one.id} ...${one} isOver=${turn.isOver} />`
      : one.kind === 'thinking' ? html`<details key=${index} class="thinking"><summary>${t.chat.thinking}</summary><${Markdown} text=${one.content} /></details>`
        : html`<${Markdown} key=${index} text=${one.content} />`))}
    ${turn.fault && html`<div class="problem" role="alert"><p><strong>${turn.fault.title}</strong> ${turn.fault.message}</p>${turn.fault.canRetry && retry && html`<${Button} onClick=${retry}>${t.app.retry}<//>`}</div>`}
  </article>`;

/** What an agent used, and what came of it. @param {{name: string, input: any, result: string | null, isError: boolean, isOver: boolean}} props */
const Tool = ({ name, input, result, isError, isOver }) => html`
  <details class="tool">
    <summary><${Icon} name="tool" /><span>${name.replace(/^mcp__[^_]+__/, '')}</span> <span class="soft">${brief(input)}</span>
      ${isError ? html`<${Tag} kind="bad">${t.chat.failed}<//>` : result === null && !isOver ? html`<${Tag} kind="wait">${t.chat.working}<//>` : null}</summary>
    <pre class="command" tabindex="0">${JSON.stringify(input, null, 2)}</pre>
    ${result !== null && html`<pre class="command" tabindex="0">${result}</pre>`}
  </details>`;

/** @param {any} input */
const brief = (input) => Object.values(input ?? {}).filter((one) => typeof one === 'string').join(' · ').slice(0, 100);
