#!/usr/bin/env bash
# Guess: a library that turns HTML into markdown escapes what would mean something there, so that a paragraph stays that paragraph.
# Seen: none of three does so for all of ten plain paragraphs. markdownify makes "1986. A great year" a list that begins at
#   1986, "# of people" a heading and "> 5 is more" a quotation; html2text the latter two, and emphasis of "*this*";
#   html-to-markdown keeps the beginnings of lines, and makes links, emphasis, strikethrough and code of text. All three write
#   the text `&lt;` (a page about HTML) as it is, and a reader shows `<`. markdownify with escape_misc=True gets all ten right,
#   and alone escapes `[[Name]]`; `#tag` is escaped by none, for CommonMark has no tags.
# Why it matters: a clipped page puts headings, tags and links into a vault that no author wrote, and watchers act on them.
source "$(dirname "$0")/support/common.sh"
python_packages markdownify==1.2.3 html2text==2025.4.15 html-to-markdown==3.21.2 markdown-it-py==4.3.0

cat >"$work/run.py" <<'X'
import html

import html2text
import html_to_markdown
import markdownify
from markdown_it import MarkdownIt

plain = html2text.HTML2Text()
plain.body_width = 0
converters = {
    "markdownify": markdownify.markdownify,
    "markdownify, escape_misc": lambda text: markdownify.markdownify(text, escape_misc=True),
    "html2text": plain.handle,
    "html-to-markdown": lambda text: html_to_markdown.convert(text).content,
}
texts = [
    "1986. A great year", "- 5 degrees", "1) first", "# of people", "> 5 is more", "read *this* now", "[a](b) is a link",
    "~~no~~", "`cd`", "A &lt; B",
]  # fmt: skip
reader = MarkdownIt("commonmark").enable("strikethrough")
for name, convert in converters.items():
    print(name)
    for text in texts:
        made = str(convert(f"<p>{html.escape(text)}</p>")).strip()
        shown = reader.render(made).strip()
        if html.unescape(shown.removeprefix("<p>").removesuffix("</p>")) != text:
            print("  ", text, "->", made, "->", shown.replace("\n", ""))
for name, convert in converters.items():
    print("a tag and a link of a vault,", name, "->", str(convert("<p>see #tag and [[Name]]</p>")).strip())
X
"$python" "$work/run.py" | tee "$work/out"
cat >"$work/expected" <<'X'
markdownify
   1986. A great year -> 1986. A great year -> <ol start="1986"><li>A great year</li></ol>
   - 5 degrees -> - 5 degrees -> <ul><li>5 degrees</li></ul>
   1) first -> 1) first -> <ol><li>first</li></ol>
   # of people -> # of people -> <h1>of people</h1>
   > 5 is more -> > 5 is more -> <blockquote><p>5 is more</p></blockquote>
   [a](b) is a link -> [a](b) is a link -> <p><a href="b">a</a> is a link</p>
   ~~no~~ -> ~~no~~ -> <p><s>no</s></p>
   `cd` -> `cd` -> <p><code>cd</code></p>
   A &lt; B -> A &lt; B -> <p>A &lt; B</p>
markdownify, escape_misc
html2text
   1) first -> 1) first -> <ol><li>first</li></ol>
   # of people -> # of people -> <h1>of people</h1>
   > 5 is more -> > 5 is more -> <blockquote><p>5 is more</p></blockquote>
   read *this* now -> read *this* now -> <p>read <em>this</em> now</p>
   [a](b) is a link -> [a](b) is a link -> <p><a href="b">a</a> is a link</p>
   ~~no~~ -> ~~no~~ -> <p><s>no</s></p>
   `cd` -> `cd` -> <p><code>cd</code></p>
   A &lt; B -> A &lt; B -> <p>A &lt; B</p>
html-to-markdown
   read *this* now -> read *this* now -> <p>read <em>this</em> now</p>
   [a](b) is a link -> [a](b) is a link -> <p><a href="b">a</a> is a link</p>
   ~~no~~ -> ~~no~~ -> <p><s>no</s></p>
   `cd` -> `cd` -> <p><code>cd</code></p>
   A &lt; B -> A &lt; B -> <p>A &lt; B</p>
a tag and a link of a vault, markdownify -> see #tag and [[Name]]
a tag and a link of a vault, markdownify, escape_misc -> see #tag and \[\[Name\]\]
a tag and a link of a vault, html2text -> see #tag and [[Name]]
a tag and a link of a vault, html-to-markdown -> see #tag and [[Name]]
X
diff "$work/expected" "$work/out" || changed "see the lines above"
