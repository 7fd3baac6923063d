"""The command line: the only place that knows stdin, stdout, terminals and exit codes."""
