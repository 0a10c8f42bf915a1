#!/usr/bin/env bash
# Guess: a reader of the part of a JSON text that has come so far gives back values that are final, or the beginning of a text.
# Seen: all four give 1, 12 and -15 on the way to 123 and -150. json_repair shows half an escape as text, a backslash with digits, and
#   begins with a list in place of the object; partialjson has the text "-" for a number, and keys that are halves of a name.
# Why it matters: a model's call of a tool streams in as such parts. Show text from them; act on nothing before the end.
source "$(dirname "$0")/support/common.sh"
python_packages jiter==0.19.0 json_repair==0.64.6 partial-json-parser==0.2.1.1.post7 partialjson==1.2.0

cat >"$work/run.py" <<'X'
import json

import jiter
import json_repair
import partial_json_parser
from partialjson.json_parser import JSONParser

final = {"text": "caf\u00e9", "line": 123, "height": -150}
whole = json.dumps(final)
readers = {
    "jiter": lambda part: jiter.from_json(part.encode(), partial_mode="trailing-strings"),
    "partial-json-parser": partial_json_parser.loads,
    "json_repair": json_repair.loads,
    "partialjson": JSONParser().parse,
}
for name, read in readers.items():
    seen = []
    for end in range(1, len(whole) + 1):
        try:
            value = read(whole[:end])
        except Exception:
            continue
        if not isinstance(value, dict):
            seen.append(f"not an object: {type(value).__name__}")
            continue
        for key, found in value.items():
            wanted = final.get(key)
            if key not in final:
                seen.append("half a key")
            elif isinstance(wanted, str):
                if not wanted.startswith(found or ""):
                    seen.append("half an escape")
            elif found != wanted and found is not None:
                seen.append(f"{found} for {wanted}")
    print(f"{name}: {', '.join(sorted(set(seen)))}")
X
"$python" "$work/run.py" | tee "$work/out"
cat >"$work/expected" <<'X'
jiter: -1 for -150, -15 for -150, 1 for 123, 12 for 123
partial-json-parser: -1 for -150, -15 for -150, 1 for 123, 12 for 123
json_repair:  for -150,  for 123, -1 for -150, -15 for -150, 1 for 123, 12 for 123, half an escape, not an object: list
partialjson: - for -150, -1 for -150, -15 for -150, 1 for 123, 12 for 123, half a key
X
diff "$work/expected" "$work/out" || changed "see the lines above"
