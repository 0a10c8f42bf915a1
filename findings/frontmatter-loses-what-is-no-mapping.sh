#!/usr/bin/env bash
# Guess: python-frontmatter takes a note apart into properties and text, so that what is not properties is in the text: a note
# that begins with a rule, and a body that begins with indented code, come back whole.
# Seen: whatever stands between two lines of three or more hyphens at the top is taken away, and is kept only where it is a mapping:
#   a sentence between two rules, a list, and a block of comments are in neither part, and nothing is raised. A line of four
#   hyphens, which closes nothing in an editor of notes, opens and closes one. The body is stripped on both sides, so its first
#   indented line is no code any more. A note that begins with { is read as JSON. `dumps` of a note without any properties
#   puts {} between two rules on top of it.
# Why it matters: load and dump, the usual way to set one property, deletes the first lines of such notes for good. Write a
#   change of a property into the bytes of the note, and leave one alone whose top is no mapping.
source "$(dirname "$0")/support/common.sh"
python_packages python-frontmatter==1.3.0

cat >"$work/run.py" <<'X'
import frontmatter

for text in ("---\nA line between rules.\n---\nmore\n", "---\n- one\n- two\n---\nmore\n", "---\n# a comment\n---\nmore\n", "----\na: 1\n----\nmore\n",
             "---\na: 1\n---\n\n    code\nmore\n", '{\n"a": 1\n}\n\nmore\n', "plain\n"):
    post = frontmatter.loads(text)
    print(f"{text!r}: {post.metadata} and {post.content!r}; dumps {frontmatter.dumps(post)!r}")
X
"$python" "$work/run.py" | tee "$work/out"
cat >"$work/expected" <<'X'
'---\nA line between rules.\n---\nmore\n': {} and 'more'; dumps '---\n{}\n---\n\nmore'
'---\n- one\n- two\n---\nmore\n': {} and 'more'; dumps '---\n{}\n---\n\nmore'
'---\n# a comment\n---\nmore\n': {} and 'more'; dumps '---\n{}\n---\n\nmore'
'----\na: 1\n----\nmore\n': {'a': 1} and 'more'; dumps '---\na: 1\n---\n\nmore'
'---\na: 1\n---\n\n    code\nmore\n': {'a': 1} and 'code\nmore'; dumps '---\na: 1\n---\n\ncode\nmore'
'{\n"a": 1\n}\n\nmore\n': {'a': 1} and 'more'; dumps '{\n    "a": 1\n}\n\n\nmore'
'plain\n': {} and 'plain'; dumps '---\n{}\n---\n\nplain'
X
diff "$work/expected" "$work/out" || changed "see the lines above"
