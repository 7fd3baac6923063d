"""The command `pptrace`: the table of commands and the way into them. The only place that knows stdin, stdout, a tty and
exit codes.

One small file per command, found by the literal table `COMMANDS` and imported only when it runs, so that `--version` and
every single command import nothing else. To add a command NAME:

- write `pptrace/cli/NAME.py` with a click command in the variable `command`, and add a line to `COMMANDS`;
- decorate it with what it needs from `pptrace.cli.options`, outermost first: `@click.command()`, `@source_argument`,
  `@schedule_options` (gives `options: ScheduleOptions`), `@output_options` (gives `to: str | None, output: str | None`),
  `@common_options` (last: `-h`, `--color`). Its docstring is its help: one paragraph and, after `\\b`, an example;
- get its input from `pptrace.cli.source.load(source, options)`: a `Loaded` with `.schedule`, `.listing`, `.timeline()`,
  `.report()`, `.notes`, whatever the user named;
- hand what it prints to `pptrace.cli.output.deliver(content, output)`, rendered first; everything that is not the result goes
  to stderr through `output.note` and `output.warn`;
- return its exit code: None or 0 fine, 1 where the answer is bad. What has no answer is raised: `PptraceError` (or click's
  `UsageError`) becomes one line `error: ...` on stderr and exit code 2, `DeadlockError` exit code 1, Ctrl-C 130;
- import heavy or rarely used things inside the function (`# noqa: PLC0415`), never `rich` outside `pptrace/render/terminal.py`.
"""

from __future__ import annotations

import gc
import os
import sys
from importlib import import_module
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from pptrace import __version__
from pptrace.cli.errors import run_and_report

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMANDS = {
    "show": "the schedule as a grid, with lifetimes and metrics",
    "trace": "the same as JSON, for pipes",
    "check": "what is wrong with a schedule, in a file or by name",
    "diff": "where two orders part, and what each costs",
    "convert": "from one format to another",
    "prove": "gradients against the unsplit step, exactly",
    "schedules": "the schedules that pptrace knows",
    "handout": "a lesson page for a class, or an exercise with its answers",
    "queue": "the queue lab: a fluid queue, to think about outstanding work",
    "schema": "the JSON Schema of a trace",
}
"""Name to the one line that `pptrace --help` prints; the module is `pptrace.cli.<name>`."""


class Program(click.Group):
    """A group of commands that imports the one that is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"pptrace.cli.{cmd_name.replace('-', '_')}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        command = self.get_command(ctx, name)
        if command is None and not ctx.resilient_parsing:
            from pptrace.printable import printable  # noqa: PLC0415
            from pptrace.schedules.registry import REGISTRY, nearest  # noqa: PLC0415

            shown = printable(name, 40)
            if name in REGISTRY:
                hint = f"it is a schedule: pptrace show {name} -P 4 -M 8"
            else:
                near = nearest(name, list(COMMANDS))
                hint = f"did you mean {near}?" if near else "`pptrace --help` lists the commands"
            message = f"no command is called {shown!r}; {hint}"
            raise click.UsageError(message, ctx)
        return name, command, args[1:] if command is None else _spelled_out(command, args[1:])

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run one command line and leave with its exit code (return it where not `standalone_mode`)."""
        if args is None:  # a process of our own, short and with hardly a cycle: collecting would only cost time
            gc.disable()
        given = list(sys.argv[1:] if args is None else args) or ["--help"]
        if "_PPTRACE_COMPLETE" in os.environ:
            self._main_shell_completion(extra, "pptrace", "_PPTRACE_COMPLETE")

        def run() -> object:
            with self.make_context("pptrace", given, **extra) as context:
                return self.invoke(context)

        code = run_and_report(run)
        if standalone_mode:
            sys.exit(code)
        return code


def _spelled_out(command: click.Command, args: list[str]) -> list[str]:
    """`-P 4` as `--ranks 4`. For every short option click first looks for long ones that are nearly the same, which takes
    as long as some imports; where the short name is written alone there is nothing to look for."""
    known = {flag: option for option in command.params if isinstance(option, click.Option) for flag in option.opts}
    spelled: list[str] = []
    rest = iter(args)
    for arg in rest:
        option = known.get(arg)
        if arg == "--":
            return [*spelled, arg, *rest]
        spelled.append(arg if option is None else max(option.opts, key=len))
        if option is not None and not option.is_flag and not option.count:
            spelled += list(islice(rest, 1))
    return spelled


def _print_version(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        click.echo(f"pptrace {__version__}")
        ctx.exit()


@click.group(
    cls=Program,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="`pptrace COMMAND --help` shows a command's options and an example. For completion put "
    '`eval "$(_PPTRACE_COMPLETE=bash_source pptrace)"` into ~/.bashrc (zsh_source, fish_source for the other shells).',
)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="The version."
)
@click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    help="Colour; auto: on a terminal, unless NO_COLOR is set (FORCE_COLOR forces it).",
)
@click.pass_context
def main(ctx: click.Context, color: str) -> None:
    """See, check, explain and teach pipeline-parallel training schedules.

    \b
    pptrace show 1f1b -P 4 -M 4                          a grid, lifetimes, exact metrics
    pptrace trace 1f1b -P 4 -M 4 | pptrace show -        the same through JSON
    """
    ctx.obj = color
