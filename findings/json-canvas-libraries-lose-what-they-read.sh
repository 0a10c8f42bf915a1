#!/usr/bin/env bash
# Guess: a library for JSON Canvas reads what its specification allows (no list is required, an editor may add keys of its own)
# and writes a card with its text.
# Seen: PyJSONCanvas raises KeyError for a canvas without edges and for an empty one ({}, which is a new canvas), and TypeError
#   for one key that it does not know. openjsoncanvas keeps unknown keys of what it read, but a text card, a file card and a link
#   that are added with its own classes are written without `text`, `file` and `url`, and nothing is raised; its create_text_node
#   raises TypeError with today's pydantic. Both write every absent field as null: "color": null, "fromSide": null.
# Why it matters: an agent that adds one card with such a library empties it or cannot open the board at all. A canvas is JSON:
#   change the parsed object, keep its order and the keys that are unknown, and write back no more than was changed.
source "$(dirname "$0")/support/common.sh"
python_packages PyJSONCanvas==1.0.2 openjsoncanvas==3.0.0 pydantic==2.14.4

cat >"$work/run.py" <<'X'
import json, warnings

warnings.simplefilter("ignore")
import openjsoncanvas
import pyjsoncanvas

CARD = {"id": "a", "type": "text", "x": 0, "y": 0, "width": 250, "height": 60, "text": "Seeds"}
CASES = {"empty": {}, "no edges": {"nodes": [CARD]}, "both lists": {"nodes": [CARD], "edges": []},
         "a key of an editor": {"nodes": [{**CARD, "zoom": 2}], "edges": []}}

def tried(call):
    try:
        return call()
    except Exception as error:
        return type(error).__name__

for case, canvas in CASES.items():
    for library in (pyjsoncanvas, openjsoncanvas):
        answer = tried(lambda: library.Canvas.from_json(json.dumps(canvas)).to_json())
        print(f"{library.__name__}, {case}: {answer.replace(', ', ',').replace(': ', ':')}")
place = {"x": 0, "y": 0}
for node in (openjsoncanvas.TextNode(id="a", text="Seeds", **place), openjsoncanvas.FileNode(id="b", file="Seeds.md", **place),
             openjsoncanvas.LinkNode(id="c", url="https://example.org/", **place)):
    canvas = openjsoncanvas.Canvas()
    canvas.add_nodes(node)
    print("openjsoncanvas, added:", json.loads(canvas.to_json())["nodes"][0])
print("openjsoncanvas, create_text_node:", tried(lambda: openjsoncanvas.Canvas().create_text_node(id="a", text="Seeds", **place)))
X
"$python" "$work/run.py" | tee "$work/out"
cat >"$work/expected" <<'X'
pyjsoncanvas, empty: KeyError
openjsoncanvas, empty: {"nodes":[],"edges":[]}
pyjsoncanvas, no edges: KeyError
openjsoncanvas, no edges: {"nodes":[{"id":"a","type":"text","x":0,"y":0,"width":250,"height":60,"color":null,"text":"Seeds"}],"edges":[]}
pyjsoncanvas, both lists: {"nodes":[{"type":"text","id":"a","x":0,"y":0,"width":250,"height":60,"color":null,"text":"Seeds"}],"edges":[]}
openjsoncanvas, both lists: {"nodes":[{"id":"a","type":"text","x":0,"y":0,"width":250,"height":60,"color":null,"text":"Seeds"}],"edges":[]}
pyjsoncanvas, a key of an editor: TypeError
openjsoncanvas, a key of an editor: {"nodes":[{"id":"a","type":"text","x":0,"y":0,"width":250,"height":60,"color":null,"text":"Seeds","zoom":2}],"edges":[]}
openjsoncanvas, added: {'id': 'a', 'type': 'text', 'x': 0, 'y': 0, 'width': 100, 'height': 50, 'color': None}
openjsoncanvas, added: {'id': 'b', 'type': 'file', 'x': 0, 'y': 0, 'width': 100, 'height': 50, 'color': None}
openjsoncanvas, added: {'id': 'c', 'type': 'link', 'x': 0, 'y': 0, 'width': 100, 'height': 50, 'color': None}
openjsoncanvas, create_text_node: TypeError
X
diff "$work/expected" "$work/out" || changed "see the lines above"
