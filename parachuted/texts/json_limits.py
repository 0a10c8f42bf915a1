"""JSON limits: how much untrusted JSON may hold, checked before anything is built from it: a parser
takes seconds for 8 MB of `[]`. Bytes are counted piece by piece, so other threads have their turn.
"""

from __future__ import annotations

MOST_VALUES = 100_000
MOST_DEPTH = 64

_PIECE = 1 << 16
_ALL_BUT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_OPENING = b"[{"


def check_json(data: bytes, *, most_values: int = MOST_VALUES, most_depth: int = MOST_DEPTH) -> int:
    """About how many values it holds; ValueError where they are too many or too deep. Whether it is
    JSON at all is for its parser to say.
    """
    opening, commas = data.count(b"[") + data.count(b"{"), data.count(b",")
    if opening + commas < most_values and opening <= most_depth:
        return opening + commas + 1  # as if all of these stood outside its texts
    values, depth, at, is_text = 1, 0, 0, False
    while at < len(data):
        piece = data[at : at + _PIECE]
        if at + _PIECE < len(data) and (len(piece) - len(piece.rstrip(b"\\"))) % 2:
            piece = piece[:-1]  # what is escaped is in the next one
        at += len(piece)
        parts = piece.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
        outside = b"".join(parts[is_text::2])
        is_text ^= len(parts) % 2 == 0
        values += outside.count(b",") + outside.count(b"[") + outside.count(b"{")
        if values > most_values:
            raise ValueError(f"it holds more than {most_values:,} values; send it in parts")
        for bracket in outside.translate(None, _ALL_BUT_BRACKETS):
            depth += 1 if bracket in _OPENING else -1
            if depth > most_depth:
                raise ValueError(f"it is nested more than {most_depth} levels deep")
    return values
