#!/usr/bin/env bash
# Guess: three readers of the text that WhatsApp exports agree on who wrote when; where nothing in the text decides between day and
#   month, they ask or say so.
# Seen: whatsapp-chat-parser and whatstk guess by which number changes more often. A chat on the first of three months in a row is
#   read as three days of January, also with the dots of a German date; one more message, of the 14th, moves those before it to
#   other months. chat-miner reads the day first, also beside AM and PM where no number is above 12. None says that it guessed.
#   To all three a line of the program about a subject with a colon is a message by `Ana changed the subject to "Trip`.
# Why it matters: an import files conversations under their days. Ask for the order of the date, or take it from a message that
#   decides it; before a chat is imported again, compare it with what the first import made.
source "$(dirname "$0")/support/common.sh"
python_packages whatstk==0.9.1 chat-miner==0.6.0
node_packages whatsapp-chat-parser@4.0.2

mkdir "$work/chats"
printf '%s\n' '01.02.26, 09:00 - Ana: one' '01.03.26, 09:00 - Ben: two' '01.04.26, 09:00 - Ana: three' >"$work/chats/firsts"
{ cat "$work/chats/firsts" && echo '14.04.26, 09:00 - Ben: four'; } >"$work/chats/later"
printf '%s\n' '1/2/26, 9:00 AM - Ana: one' '1/3/26, 9:00 AM - Ben: two' '1/4/26, 9:00 PM - Ana: three' >"$work/chats/ampm"
printf '%s\n' '15/06/26, 09:00 - Ana changed the subject to "Trip: Rome"' '15/06/26, 09:01 - Ben: ok' >"$work/chats/subject"

cat >"$work/run.py" <<'X'
import logging
import sys
import warnings
from pathlib import Path

warnings.simplefilter("ignore")
from chatminer.chatparsers import WhatsAppParser
from whatstk import WhatsAppChat

logging.disable(logging.CRITICAL)
for chat in ("firsts", "later", "ampm", "subject"):
    path = Path(sys.argv[1], chat)
    frame = WhatsAppChat.from_source(str(path)).df
    print(chat, "whatstk:", ", ".join(f"{at:%m-%d} {who}" for at, who in zip(frame["date"], frame["username"])))
    parser = WhatsAppParser(str(path))
    parser.parse_file()
    rows = parser.parsed_messages.get_df().sort("timestamp").iter_rows(named=True)
    print(chat, "chat-miner:", ", ".join(f"{row['timestamp']:%m-%d} {row['author']}" for row in rows))
X
cat >"$work/node/run.mjs" <<'X'
import fs from 'node:fs';
import { parseString } from 'whatsapp-chat-parser';

const two = (number) => String(number).padStart(2, '0');
for (const chat of ['firsts', 'later', 'ampm', 'subject']) {
  const read = parseString(fs.readFileSync(`${process.argv[2]}/${chat}`, 'utf8'));
  const said = read.map(({ date, author }) => `${two(date.getMonth() + 1)}-${two(date.getDate())} ${author}`);
  console.log(chat, 'whatsapp-chat-parser:', said.join(', '));
}
X
export TZ=UTC
{ "$python" "$work/run.py" "$work/chats" 2>/dev/null && node "$work/node/run.mjs" "$work/chats"; } | tee "$work/out"
cat >"$work/expected" <<'X'
firsts whatstk: 01-02 Ana, 01-03 Ben, 01-04 Ana
firsts chat-miner: 02-01 Ana, 03-01 Ben, 04-01 Ana
later whatstk: 02-01 Ana, 03-01 Ben, 04-01 Ana, 04-14 Ben
later chat-miner: 02-01 Ana, 03-01 Ben, 04-01 Ana, 04-14 Ben
ampm whatstk: 01-02 Ana, 01-03 Ben, 01-04 Ana
ampm chat-miner: 02-01 Ana, 03-01 Ben, 04-01 Ana
subject whatstk: 06-15 Ana changed the subject to "Trip, 06-15 Ben
subject chat-miner: 06-15 Ana changed the subject to "Trip, 06-15 Ben
firsts whatsapp-chat-parser: 01-02 Ana, 01-03 Ben, 01-04 Ana
later whatsapp-chat-parser: 02-01 Ana, 03-01 Ben, 04-01 Ana, 04-14 Ben
ampm whatsapp-chat-parser: 01-02 Ana, 01-03 Ben, 01-04 Ana
subject whatsapp-chat-parser: 06-15 Ana changed the subject to "Trip, 06-15 Ben
X
diff "$work/expected" "$work/out" || changed "see the lines above"
