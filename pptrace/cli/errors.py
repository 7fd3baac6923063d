"""Errors become one line on stderr and an exit code: 0 fine, 1 the answer is bad, 2 no answer, 130 interrupted.

It owns what a person sees when something goes wrong. The library below never prints and never exits.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING

import click

from pptrace.errors import PptraceError
from pptrace.printable import printable

if TYPE_CHECKING:
    from collections.abc import Callable

FINE, BAD_ANSWER, NO_ANSWER, INTERRUPTED = 0, 1, 2, 130


def run_and_report(run: Callable[[], object]) -> int:
    """Call `run`; its int result, or the exit code of what it raised, which is then told in one line on stderr."""
    try:
        result = run()
        return result if isinstance(result, int) else FINE
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    except click.ClickException as error:
        say("error", usage_message(error))
        return NO_ANSWER
    except PptraceError as error:
        say("error", str(error))
        return BAD_ANSWER if error.is_answer else NO_ANSWER
    except (KeyboardInterrupt, EOFError, click.Abort):
        silence_stdout()
        return INTERRUPTED
    except BrokenPipeError:  # whoever reads our output has seen enough
        silence_stdout()
        return FINE
    except OSError as error:
        silence_stdout()
        say("error", os_message(error))
        return NO_ANSWER
    except MemoryError:
        say("error", "out of memory; lower P or M, or look at a part of the file")
        return NO_ANSWER


def say(kind: str, message: str) -> None:
    """One line `kind: message` on stderr, whatever the message is made of; lost where nobody can read stderr."""
    if sys.stderr is None:  # closed by whoever started us; print() would take stdout instead
        return
    with contextlib.suppress(OSError, ValueError):
        print(f"{kind}: {printable(message)}", file=sys.stderr, flush=True)  # noqa: T201


def os_message(error: OSError) -> str:
    """`samples/x.json: No such file or directory`, without Python's number and quotes."""
    place = f"{os.fsdecode(error.filename)}: " if error.filename is not None else "standard output: "
    return f"{place}{error.strerror or error}"


def usage_message(error: click.ClickException) -> str:
    """A click error in this program's words: one line, what is wrong, where, what to do."""
    message = " ".join(error.format_message().split())
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "pptrace"
    if isinstance(error, click.NoSuchOption):
        near = error.possibilities or ()  # the nearest first
        hint = f"did you mean {near[0]}?" if near else f"`{path} --help` lists them"
        return f"{path} has no option {error.option_name}; {hint}"
    if isinstance(error, click.MissingParameter) and error.param is not None:
        what = error.param.make_metavar(context) if context is not None else error.param.human_readable_name
        if isinstance(error.param, click.Argument):
            return f"{path} needs {what}; `{path} --help` shows an example"
        return f"{path} needs {error.param.opts[0]} {what}; `{path} --help` shows an example"
    if isinstance(error, click.BadOptionUsage):
        return f"{error.option_name} needs a value; --help says what it takes"
    if message.startswith("Got unexpected extra argument"):
        extra = message.partition("(")[2].rstrip(".)")
        return f"{path} takes no further argument, got {extra}; `{path} --help` shows an example"
    if isinstance(error, click.BadParameter) and error.param is not None and error.param.opts:
        return f"{error.param.opts[0]}: {error.message.rstrip('.')}"
    return message.rstrip(".") if message.endswith(".") else message


def silence_stdout() -> None:
    """Let go of a standard output that cannot be written, so that the interpreter's own flush at exit stays silent."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError, AttributeError):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
