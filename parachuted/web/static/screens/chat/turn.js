/** Turn: what an agent says and does while it answers, from the stream's events. Pure. */

/**
 * @typedef {{kind: 'text' | 'thinking', content: string}} Said
 * @typedef {{kind: 'tool', id: string, name: string, input: any, result: string | null, isError: boolean}} Used
 * @typedef {{requestId: string, kind: string, questions: {question: string, header: string, options: {label: string, description?: string}[], multiSelect: boolean}[]}} Question
 * @typedef {{title: string, message: string, canRetry: boolean}} Fault
 * @typedef {object} Turn
 * @property {string} session
 * @property {string} asked what the person said
 * @property {(Said | Used)[]} blocks
 * @property {Question[]} questions
 * @property {string[]} warnings
 * @property {any} prompt what went into the prompt, once that is known
 * @property {Fault | null} fault
 * @property {boolean} isOver
 */

/** @param {string} asked @param {string} session @returns {Turn} */
export const newTurn = (asked, session) => ({ session, asked, blocks: [], questions: [], warnings: [], prompt: null, fault: null, isOver: false });

/** The turn after an event. @param {Turn} turn @param {any} event @returns {Turn} */
export function after(turn, event) {
  switch (event.type) {
    case 'session': return event.sessionId ? { ...turn, session: event.sessionId } : turn;
    case 'user_message': return { ...turn, asked: event.content };
    case 'prompt_metadata': return { ...turn, prompt: event };
    case 'text':
    case 'thinking': return { ...turn, blocks: said(turn.blocks, event.type, event.content) };
    case 'tool_use': return { ...turn, blocks: [...turn.blocks, { kind: 'tool', id: event.tool.id, name: event.tool.name, input: event.tool.input, result: null, isError: false }] };
    case 'tool_result': return { ...turn, blocks: turn.blocks.map((one) => (one.kind === 'tool' && one.id === event.toolUseId ? { ...one, result: event.content, isError: Boolean(event.isError) } : one)) };
    case 'user_question': return { ...turn, questions: [...turn.questions, { requestId: event.requestId, kind: event.kind ?? 'question', questions: event.questions }] };
    case 'warning': return { ...turn, warnings: [...turn.warnings, event.message] };
    case 'typed_error': return { ...turn, isOver: true, fault: { title: event.title, message: event.message, canRetry: Boolean(event.canRetry) } };
    case 'error': return { ...turn, isOver: true, fault: { title: '', message: event.error, canRetry: true } };
    case 'done':
    case 'aborted': return { ...turn, isOver: true };
    default: return turn;
  }
}

/** What was said since the last tool comes whole each time. @param {Turn['blocks']} blocks @param {'text' | 'thinking'} kind @param {string} content */
function said(blocks, kind, content) {
  const last = blocks.at(-1);
  const kept = last?.kind === kind ? blocks.slice(0, -1) : blocks;
  return [...kept, { kind, content }];
}
