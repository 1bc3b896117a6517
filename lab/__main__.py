"""The lab's command line: see `python -m lab --help` and lab/README.md."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from lab import commands, namespaces, record
from lab.build import BuildError


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT")
    return host, int(port)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m lab", description="A simulated fleet of GPU hosts.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    enter = verbs.add_parser("enter", help="run a command in namespaces of its own: enter [OPTIONS] -- CMD")
    enter.add_argument("--listen", type=_address, metavar="HOST:PORT", help="bound outside, file descriptor 3 inside")
    up = verbs.add_parser("up", help="start a fleet and keep it until Ctrl-C (the demo's, or N equal hosts)")
    up.add_argument("--hosts", type=int, metavar="N")
    demo = verbs.add_parser("demo", help="the demo's fleet with a panel beside it (make demo)")
    status = verbs.add_parser("status", help="the machines of the running fleet")
    fault = verbs.add_parser("fault", help="let a machine have a fault: fault HOST VERB [ARGS]")
    fault.add_argument("host")
    fault.add_argument("fault", metavar="VERB")
    fault.add_argument("words", nargs="*", metavar="ARGS")
    ssh = verbs.add_parser("ssh", help="log in, or run a command: ssh HOST [-- CMD]")
    ssh.add_argument("host")
    for verb in (up, demo, status, fault, ssh):
        verb.add_argument("--directory", type=Path, default=commands.DEFAULT_DIRECTORY)
    return parser


def _run(arguments: Sequence[str]) -> int:
    own, command = list(arguments), []
    if "--" in own:
        cut = own.index("--")
        own, command = own[:cut], own[cut + 1 :]
    options = _parser().parse_args(own)
    if options.verb == "enter":
        if not command:
            raise commands.UsageError("enter needs a command: python -m lab enter -- COMMAND")
        return namespaces.enter(command, listen=options.listen)
    directory = options.directory.resolve()
    if options.verb == "up":
        return commands.up(directory, hosts=options.hosts)
    if options.verb == "demo":
        from lab import demo as demonstration  # numpy and Django are for the demo only

        return demonstration.run(directory)
    if not namespaces.is_inside():
        absolute = ["--directory", str(directory)]
        return commands.go_inside(directory, [*own, *absolute, *(["--", *command] if command else [])])
    if options.verb == "status":
        return commands.status(directory)
    if options.verb == "ssh":
        return commands.ssh(directory, name=options.host, command=command)
    return commands.fault(directory, name=options.host, verb=options.fault, words=options.words)


def main(arguments: Sequence[str]) -> int:
    """Returns the exit status; troubles that a person can mend are one sentence on standard error."""
    try:
        return _run(arguments)
    except (
        namespaces.RefusedError,
        record.NoFleetError,
        commands.MachineError,
        commands.UsageError,
        BuildError,
    ) as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
