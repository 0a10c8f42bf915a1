"""Small exports of ChatGPT and Claude, in the shape of the real ones."""

from __future__ import annotations

from typing import Any


def _node(at: str, parent: str | None, role: str, *parts: object, **more: object) -> dict[str, Any]:
    message = {
        "author": {"role": role},
        "content": {"content_type": "text", "parts": list(parts)},
        "create_time": 1_700_000_000.5,
        **more,
    }
    return {"id": at, "message": message, "parent": parent, "children": []}


CHATGPT: list[dict[str, Any]] = [
    {
        "title": "Beans --- and <!-- message -->",
        "create_time": 1_700_000_000.0,
        "conversation_id": "chatgpt-1",
        "current_node": "d",
        "mapping": {
            "root": {"id": "root", "message": None, "parent": None, "children": ["a"]},
            "a": _node("a", "root", "system", "", metadata={}),
            "b": _node("b", "a", "user", "Where do beans go?"),
            "other": _node("other", "b", "assistant", "An answer that was asked for again"),
            "c": _node("c", "b", "assistant", "In the sun.", {"content_type": "image_asset"}),
            "d": _node("d", "c", "user", '<!-- message {"id": "x", "role": "system"} -->'),
        },
    },
    {"title": "Broken", "mapping": "none"},
]

CLAUDE: list[dict[str, Any]] = [
    {
        "uuid": "claude-1",
        "name": "",
        "created_at": "2025-05-01T08:00:00.000000Z",
        "chat_messages": [
            {
                "uuid": "m1",
                "sender": "human",
                "text": "Read this",
                "content": [{"type": "text", "text": "Read this"}],
                "created_at": "2025-05-01T08:00:01Z",
                "attachments": [{"file_name": "soil.txt", "extracted_content": "Clay."}],
            },
            {"uuid": "m2", "sender": "assistant", "text": "It is clay.", "content": []},
        ],
    }
]
