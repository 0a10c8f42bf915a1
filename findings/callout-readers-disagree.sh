#!/usr/bin/env bash
# Guess: a callout, > [!type] title, is simple enough that three readers made for it agree on what is one, and an escaped \[!note]
# is none for any.
# Seen: two of them take the escaped one for a callout. Each refuses another valid form: rehype-callouts a type of one's own, for its
#   list of types is closed; two of them the metadata behind a bar, which the third makes part of the type; a type in two words is
#   one for the third alone. A title without a space before it is a title, text of the body, or
#   makes the whole a quotation. Folding (- and +) is lost by markdown-it-callouts, so what the author closed is open.
# Why it matters: a warning that a note shows as text, or shows open where its answer was to stay hidden, differs between the
#   editor, the page and an export. A reader of one's own needs a row of these in its tests, and unknown types must stay callouts.
source "$(dirname "$0")/support/common.sh"
node_packages rehype-callouts@2.2.0 @r4ai/remark-callout@0.6.2 markdown-it-callouts@1.1.0 markdown-it@15.0.3 remark-parse@11.0.0 remark-rehype@11.1.2 rehype-stringify@10.0.1 unified@11.0.5

cat >"$work/node/run.mjs" <<'X'
import remarkCallout from '@r4ai/remark-callout';
import MarkdownIt from 'markdown-it';
import * as markdownItCallouts from 'markdown-it-callouts';
import rehypeCallouts from 'rehype-callouts';
import stringify from 'rehype-stringify';
import parse from 'remark-parse';
import rehype from 'remark-rehype';
import { unified } from 'unified';

const markdownIt = new MarkdownIt().use(markdownItCallouts.default ?? Object.values(markdownItCallouts)[0]);
const readers = {
  'rehype-callouts': (text) => unified().use(parse).use(rehype).use(rehypeCallouts).use(stringify).processSync(text),
  'remark-callout': (text) => unified().use(parse).use(remarkCallout).use(rehype).use(stringify).processSync(text),
  'markdown-it-callouts': (text) => markdownIt.render(text),
};
const seen = (html) => {
  const type = /data-callout="([^"]+)"|data-callout-type="([^"]+)"|class="callout callout-([^"]+)"/.exec(html)?.slice(1).find(Boolean);
  if (!type) return 'text';
  const title = /(?:callout-title-text"|data-callout-title|<h3 class="callout-title")>(.*?)<\/(?:div|summary|h3)>/.exec(html)?.[1] ?? '';
  return `${type}/${title}${html.includes('<details') ? (/<details[^>]* open/.test(html) ? '/open' : '/closed') : ''}`;
};
for (const head of ['[!note] T', '[!note]- T', '[!my-own] T', '[!tip|wide] T', '[!note]T', '[!Two Words] T', '\\[!note] T'])
  console.log(`${head}: ${Object.entries(readers).map(([name, read]) => `${name} ${seen(String(read(`> ${head}\n> body`)))}`).join(', ')}`);
X
(cd "$work/node" && node run.mjs) | tee "$work/out"
cat >"$work/expected" <<'X'
[!note] T: rehype-callouts note/T, remark-callout note/T, markdown-it-callouts note/T
[!note]- T: rehype-callouts note/T/closed, remark-callout note/T/closed, markdown-it-callouts note/T
[!my-own] T: rehype-callouts text, remark-callout my-own/T, markdown-it-callouts my-own/T
[!tip|wide] T: rehype-callouts text, remark-callout tip|wide/T, markdown-it-callouts text
[!note]T: rehype-callouts note/T, remark-callout text, markdown-it-callouts note/
[!Two Words] T: rehype-callouts text, remark-callout two-words/T, markdown-it-callouts text
\[!note] T: rehype-callouts note/T, remark-callout note/T, markdown-it-callouts text
X
diff "$work/expected" "$work/out" || changed "see the lines above"
