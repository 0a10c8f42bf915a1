#!/usr/bin/env bash
# Guess: email_reply_parser takes the quoted mail and the signature off an answer, and leaves what its author wrote.
# Seen: a markdown rule ends the text; a quotation between two paragraphs is taken out with the empty lines around it; a sentence that
#   begins with "From:" empties the whole text. mail-parser-reply keeps all four.
# Why it matters: a bot that files mails as notes by such a parser loses half a note in silence. Keep the mail as it came.
source "$(dirname "$0")/support/common.sh"
python_packages email-reply-parser==0.5.12 mail-parser-reply==1.36

cat >"$work/run.py" <<'X'
from email_reply_parser import EmailReplyParser
from mailparser_reply import EmailReplyParser as Other

for text in [
    "First part\n\n---\n\nSecond part",
    "He said:\n\n> Plant early.\n\nI agree.",
    "From: Bern to: Thun\nwe walked.",
    "- sow beans\n- sow peas",
]:
    print(repr(text), "->", repr(EmailReplyParser.parse_reply(text)))
    assert Other(languages=["en"]).parse_reply(text=text) == text
X
"$python" "$work/run.py" | tee "$work/out"
cat >"$work/expected" <<'X'
'First part\n\n---\n\nSecond part' -> 'First part'
'He said:\n\n> Plant early.\n\nI agree.' -> 'He said:\nI agree.'
'From: Bern to: Thun\nwe walked.' -> ''
'- sow beans\n- sow peas' -> '- sow beans\n- sow peas'
X
diff "$work/expected" "$work/out" || changed "see the lines above"
