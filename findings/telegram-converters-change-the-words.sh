#!/usr/bin/env bash
# Guess: a converter of markdown to what Telegram shows may drop formatting, but leaves the words, numbers and signs of a sentence.
# Seen: telegram-markdown-converter turns the stars of "5 * 3 * 2" into underscores, which are italics there. md2tgmd gives a task of a
#   list a bullet only from the second item on and leaves a name_with_two underscores unescaped, which are italics too.
#   telegramify-markdown makes a title with a pencil of the frontmatter, puts a pin before a heading, and shows an open task as a
#   box with a check mark in it, a done one as another such box.
# Why it matters: a bot that answers from a note sends another sum than the note has, and "is it done?" cannot be read from
#   the sign. Send plain text, or entities beside the untouched text, and keep a row of such sentences in the tests.
source "$(dirname "$0")/support/common.sh"
python_packages telegram-markdown-converter==1.0.6 md2tgmd==0.3.10 telegramify-markdown==1.4.1

cat >"$work/run.py" <<'X'
import md2tgmd
import telegramify_markdown
from telegram_markdown_converter import convert_markdown

for text in ("5 * 3 * 2 = 30", "one_name_here", "- [ ] tea\n- [x] milk", "---\nkind: tea\n---\n# Tea"):
    plain, _ = telegramify_markdown.convert(text)
    print(f"{text!r}: telegram-markdown-converter {convert_markdown(text)!r}, md2tgmd {md2tgmd.escape(text)!r}, telegramify-markdown {ascii(plain)}")
X
"$python" "$work/run.py" | tee "$work/out"
cat >"$work/expected" <<'X'
'5 * 3 * 2 = 30': telegram-markdown-converter '5 _ 3 _ 2 \\= 30', md2tgmd '5 \\* 3 \\* 2 \\= 30', telegramify-markdown '5 * 3 * 2 = 30'
'one_name_here': telegram-markdown-converter 'one\\_name\\_here', md2tgmd 'one_name_here', telegramify-markdown 'one_name_here'
'- [ ] tea\n- [x] milk': telegram-markdown-converter '\\- \\[ \\] tea\n\\- \\[x\\] milk', md2tgmd '\\- \\[ \\] tea\n\n• \\[x\\] milk', telegramify-markdown '\u2611 tea\n\u2705 milk\n'
'---\nkind: tea\n---\n# Tea': telegram-markdown-converter '\\-\\-\\-\nkind: tea\n\\-\\-\\-\n\\# Tea', md2tgmd '\\-\\-\\-\nkind: tea\n\\-\\-\\-\n\\# Tea', telegramify-markdown '\u2014\u2014\u2014\u2014\u2014\u2014\u2014\u2014\n\u270f kind: tea\n\U0001f4cc Tea'
X
diff "$work/expected" "$work/out" || changed "see the lines above"
