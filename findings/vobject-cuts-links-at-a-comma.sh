#!/usr/bin/env bash
# Guess: vobject, on which address books and calendars of Python stand, gives back a contact as it read it, or raises.
# Seen: of a URL it keeps what stands before the first comma, and of several nicknames the first, in the value and in what it writes.
#   In a URL, and in a phone number that is a URI (vCard 4), it writes a backslash before a semicolon, which no reader of
#   URIs takes out. Nothing is said.
# Why it matters: notes on people are kept beside their contacts; a tool that adds a number to one cuts its link. Keep the lines that are not
#   changed as bytes.
source "$(dirname "$0")/support/common.sh"
python_packages vobject==0.9.9

cat >"$work/run.py" <<'X'
import vobject

lines = [
    "FN:Ann Smith",
    "NICKNAME:Annie,Nan",
    "URL:https://maps.example/place?at=52.5,13.4",
    "URL:https://a.example/list;sort=name",
    "TEL;VALUE=uri:tel:+49-30-123;ext=5",
    "CATEGORIES:friends,work",
]
card = vobject.readOne("\r\n".join(["BEGIN:VCARD", "VERSION:4.0", *lines, "END:VCARD", ""]))
written = card.serialize(validate=False).split("\r\n")
for line in lines:
    if line not in written:
        print(line, "->", [each for each in written if each.split(":")[0] == line.split(":")[0]])
X
"$python" "$work/run.py" | tee "$work/out"
cat >"$work/expected" <<'X'
NICKNAME:Annie,Nan -> ['NICKNAME:Annie']
URL:https://maps.example/place?at=52.5,13.4 -> ['URL:https://maps.example/place?at=52.5', 'URL:https://a.example/list\\;sort=name']
URL:https://a.example/list;sort=name -> ['URL:https://maps.example/place?at=52.5', 'URL:https://a.example/list\\;sort=name']
TEL;VALUE=uri:tel:+49-30-123;ext=5 -> ['TEL;VALUE=uri:tel:+49-30-123\\;ext=5']
X
diff "$work/expected" "$work/out" || changed "see the lines above"
