"""Text from outside, made safe to print: what a label, a file name or an argument may do to a terminal or a page is nothing.

It owns the one rule for untrusted text in messages, grids and headers. Escaping for HTML, SVG or TeX is the renderers'.
"""

from __future__ import annotations

_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def printable(text: str, limit: int = 0) -> str:
    """`text` on one line: control characters, escape sequences, direction marks and lone surrogates as visible escapes.

    With `limit`, at most that many characters of `text` are shown, the last three as dots. Printable text, non-ASCII
    letters included, stays as it is.
    """
    if limit and len(text) > limit:
        text = text[: limit - 3] + "..."
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else _escaped(character) for character in text)


def quoted(text: str, limit: int = 40) -> str:
    """`text` in quotes, in ASCII, at most `limit` characters of it: a cell or a word that is not what it should be."""
    return ascii(text if len(text) <= limit else text[: limit - 3] + "...")


def _escaped(character: str) -> str:
    code = ord(character)
    if character in _SHORT:
        return _SHORT[character]
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
