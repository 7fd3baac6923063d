"""Untrusted text in TeX: printed, never run. It knows characters only."""

from __future__ import annotations

from functools import lru_cache

from pptrace.printable import printable

_ESCAPES = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "''",
    "-": "-{}",
    "`": "`{}",
    "'": "'{}",
}


@lru_cache(maxsize=65536)
def escaped(text: str) -> str:
    """Untrusted text as TeX that prints it. Other than ASCII letters appear as visible escapes."""
    return "".join(_ESCAPES.get(character, character) for character in ascii_text(text))


def ascii_text(text: str) -> str:
    """Control characters and all but ASCII as visible escapes."""
    return printable(text).encode("ascii", "backslashreplace").decode()
