"""talker --lines N [--to FILE] [--each K] [-- COMMAND ...]: writes lines as an engine's log has, then becomes COMMAND.

One write() a line of 120 bytes, each with its moment and number; the first tells when it began. Every K-th holds the
planted secret.
"""

import argparse
import os
import time

LINE_BYTES = 120
PLANTED = "hf_plantedForTheLogBench0123"


def line(number: int, *, secret: bool, at: float) -> bytes:
    """The line with this number: whole, and always as long."""
    text = f"{at:.6f} INFO Decode batch {number:08d}, #running-req: 3, token usage: 0.12"
    text += f", HF_TOKEN={PLANTED}" if secret else ", gen throughput (token/s): 61.3"
    return f"{text:{LINE_BYTES - 1}}\n".encode()


def main() -> None:
    parser = argparse.ArgumentParser(prog="talker", allow_abbrev=False)
    parser.add_argument("--lines", type=int, required=True)
    parser.add_argument("--to", default="/dev/stdout")
    parser.add_argument("--each", type=int, default=0)
    parser.add_argument("command", nargs="*")
    asked = parser.parse_args()
    out = os.open(asked.to, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644) if asked.to != "/dev/stdout" else 1
    for number in range(1, asked.lines + 1):
        secret = bool(asked.each) and number % asked.each == 0
        os.write(out, line(number, secret=secret, at=time.time()))
    if asked.command:
        os.execvp(asked.command[0], asked.command)
