"""Where results go: stdout or a file, written whole or not at all; and when colour is used.

Commands render first and come here last, so that a failed render leaves an existing file as it was.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from typing import TYPE_CHECKING

import click

from pptrace.cli.errors import say, silence_stdout
from pptrace.errors import PptraceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import BinaryIO


def note(message: str) -> None:
    """A remark beside the result, on stderr."""
    say("note", message)


def warn(message: str) -> None:
    """A warning beside the result, on stderr."""
    say("warning", message)


def wants_json(to: str | None, output: str | None) -> bool:
    """Whether JSON is asked for, by -t or else by the suffix of -o."""
    return to == "json" or (to is None and output is not None and output.lower().endswith(".json"))


def deliver(content: str | bytes | Iterable[bytes], path: str | None = None) -> None:
    """Write a finished result to the file `path`, or to stdout (None or `-`).

    A file is replaced only when all of it has been written. A reader of stdout that has gone away is no error. Raises
    `OSError` where the place cannot be written.
    """
    if path is None or path == "-":
        _write_stdout(content)
    elif not path:
        message = "-o '': the name of the output file is empty; name a file, or - for stdout"
        raise PptraceError(message)
    else:
        _write_file(content, path)


def _write_stdout(content: str | bytes | Iterable[bytes]) -> None:
    if sys.stdout is None:
        message = "standard output is closed; name a file with -o"
        raise PptraceError(message)
    try:
        sys.stdout.flush()
        # Bytes (JSON) are UTF-8 whatever the locale is; text falls back to visible escapes where the locale lacks a letter.
        _write_all(sys.stdout.buffer, content, sys.stdout.encoding or "utf-8")
        sys.stdout.flush()
    except BrokenPipeError:
        silence_stdout()


def _write_all(stream: BinaryIO, content: str | bytes | Iterable[bytes], encoding: str = "utf-8") -> None:
    if isinstance(content, str):
        stream.write(content.encode(encoding, "backslashreplace"))
    elif isinstance(content, bytes):
        stream.write(content)
    else:
        stream.writelines(content)


def _write_file(content: str | bytes | Iterable[bytes], path: str) -> None:
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        mode = None
    if mode is not None and stat.S_ISDIR(mode):
        raise IsADirectoryError(21, "is a directory; name a file", path)
    if mode is not None and not stat.S_ISREG(mode):
        _naming(path, lambda: _write_directly(content, path))  # a device or a pipe
        return
    if mode is not None and not os.access(path, os.W_OK):
        raise PermissionError(13, "Permission denied", path)
    target = os.path.realpath(path)  # a link stays a link, its target is replaced
    temporary = os.path.join(os.path.dirname(target), f".{os.path.basename(target)[:100]}.{os.getpid()}.part")
    _naming(path, lambda: _write_and_rename(content, temporary, target, mode))


def _write_directly(content: str | bytes | Iterable[bytes], target: str) -> None:
    with open(target, "wb") as stream:
        _write_all(stream, content)


def _write_and_rename(content: str | bytes | Iterable[bytes], temporary: str, target: str, mode: int | None) -> None:
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        with open(descriptor, "wb") as stream:
            _write_all(stream, content)
        if mode is not None:
            os.chmod(temporary, stat.S_IMODE(mode))
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _naming(path: str, write: Callable[[], None]) -> None:
    """Run `write`; an error of the system names `path` as the user wrote it, not the temporary file."""
    try:
        write()
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None


def use_color(*, to_file: bool = False) -> bool:
    """Whether the result gets colour: `--color`, else (never in a file) NO_COLOR, FORCE_COLOR, TERM=dumb, else whether
    stdout is a terminal."""
    context = click.get_current_context(silent=True)
    choice = context.find_root().obj if context is not None else None
    if choice in ("always", "never"):
        return bool(choice == "always")
    if to_file:
        return False
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return os.environ["FORCE_COLOR"] != "0"
    return os.environ.get("TERM") != "dumb" and is_terminal()


def is_terminal() -> bool:
    """Whether a person reads stdout as it comes."""
    return sys.stdout is not None and sys.stdout.isatty()
