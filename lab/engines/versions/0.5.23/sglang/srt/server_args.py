"""The launch flags of SGLang 0.5.23 that an operator meets: fields of namespaces, as in the real one."""

import argparse
from collections.abc import Sequence

from sglang.srt.arg_groups.arg_utils import add_cli_args_from_dataclass
from sglang.srt.arg_groups.fields.exec_ import Exec
from sglang.srt.arg_groups.fields.lora import Lora
from sglang.srt.arg_groups.fields.memory import Memory
from sglang.srt.arg_groups.fields.model import Model
from sglang.srt.arg_groups.fields.observability import Observability
from sglang.srt.arg_groups.fields.parallel import Parallel
from sglang.srt.arg_groups.fields.schedule import Schedule
from sglang.srt.arg_groups.fields.serving import Serving
from sglang.srt.arg_groups.fields.spec import Spec
from sglang.srt.arguments import fill_in
from sglang.srt.function_call.function_call_parser import FunctionCallParser
from sglang.srt.parser.reasoning_parser import ReasoningParser


class ServerArgs:
    """Its fields are those of the namespaces below."""

    @staticmethod
    def add_cli_args(parser: argparse.ArgumentParser) -> None:
        """Every flag: those of the fields, and those whose choices are put together."""
        add_cli_args_from_dataclass(parser, ServerArgs)
        reasoning_parser_choices = list(ReasoningParser.DetectorMap.keys())
        parser.add_argument(
            "--reasoning-parser",
            type=str,
            choices=["auto"] + reasoning_parser_choices,  # noqa: RUF005
            default=Serving.reasoning_parser,
            help="How reasoning is told from the answer.",
        )
        tool_call_parser_choices = list(FunctionCallParser.ToolCallParserEnum.keys())
        parser.add_argument(
            "--tool-call-parser",
            type=str,
            choices=["auto"] + tool_call_parser_choices,  # noqa: RUF005
            default=Serving.tool_call_parser,
            help="How calls of tools are read.",
        )


ServerArgs._NAMESPACES = (Exec, Lora, Memory, Model, Observability, Parallel, Schedule, Serving, Spec)


def build_parser() -> argparse.ArgumentParser:
    """Unambiguous prefixes of a flag are accepted, as in the real one."""
    parser = argparse.ArgumentParser(prog="launch_server.py")
    ServerArgs.add_cli_args(parser)
    return parser


def prepare_server_args(argv: Sequence[str]) -> argparse.Namespace:
    """The values as given, with the few that follow from another one filled in. Exits 2 on an error."""
    return fill_in(build_parser().parse_args(argv))
