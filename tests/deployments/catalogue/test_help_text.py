"""Flags out of a help text."""

from __future__ import annotations

import argparse

from deployments.catalogue.help_text import flags_of_help

LLAMA = """
usage: llama-server [options]

----- common params -----

-h,    --help, --usage                  print usage and exit
-t,    --threads N                      number of CPU threads to use during generation (default: -1)
                                        (env: LLAMA_ARG_THREADS)
-fa,   --flash-attn [on|off|auto]       set Flash Attention use ('on', 'off', or 'auto', default: 'auto')
-ctk,  --cache-type-k TYPE              KV cache data type for K
                                        allowed values: f32, f16, bf16, q8_0
-sm,   --split-mode {none,layer,row}    how to split the model across multiple GPUs, one of:
                                        - none: use one GPU only
--no-mmap                               do not memory-map model (slower load)
-ot,   --override-tensor <tensor name pattern>=<buffer type>,...
                                        override tensor buffer type

----- sampling params -----

-Cr,   --cpu-range lo-hi                range of CPUs for affinity
-dev,  --device <dev1,dev2,..>          comma-separated list of devices to use for offloading
--spec-type none,draft-mtp,...          comma-separated list of types of speculative decoding
--control-vector-layer-range START END
                                        layer range to apply the control vector(s) to
--draft, --draft-n N                    the argument has been removed. use --spec-draft-n-max or
                                        --spec-ngram-mod-n-max
-dt,   --defrag-thold N                 KV cache defragmentation threshold (DEPRECATED)
--samplers SAMPLERS                     samplers that will be used for generation in the order
"""


def test_what_argparse_prints() -> None:
    parser = argparse.ArgumentParser(prog="launch_server.py", formatter_class=lambda prog: argparse.HelpFormatter(
        prog, width=150))  # fmt: skip
    parser.add_argument("--model-path", "--model", required=True, help="Where it is.\nOr what.")
    parser.add_argument("--kv-cache-dtype", choices=["auto", "bf16"], default="auto", help="Of it (default: auto)")
    parser.add_argument("--cuda-graph-bs", type=int, nargs="+", help="sizes")
    parser.add_argument("--paths", nargs="*")
    parser.add_argument("--maybe", nargs="?")
    parser.add_argument("--disable-radix-cache", action="store_true", help="[Deprecated] off")
    parser.add_argument("-tp", "--tensor-parallel-size", type=int)
    parser.add_argument("--a-flag-with-a-very-long-name-indeed-so-that-help-is-below", help="below")
    flags = {flag.name: flag for flag in flags_of_help(parser.format_help(), engine="sglang")}
    takes = {name: flag.takes for name, flag in flags.items()}
    assert takes == {
        "--help": "0", "--model-path": "1", "--kv-cache-dtype": "1", "--cuda-graph-bs": "+", "--paths": "*",
        "--maybe": "?", "--disable-radix-cache": "0", "--tensor-parallel-size": "1",
        "--a-flag-with-a-very-long-name-indeed-so-that-help-is-below": "1",
    }  # fmt: skip
    assert flags["--model-path"].names == ("--model-path", "--model") and flags["--model-path"].type == ""
    assert flags["--kv-cache-dtype"].choices == ("auto", "bf16") and flags["--kv-cache-dtype"].default == "auto"
    assert flags["--disable-radix-cache"].deprecated and flags["--tensor-parallel-size"].names[0] == "-tp"
    assert list(flags.values())[-1].help == "below"


def test_what_llama_server_prints() -> None:
    flags = {flag.name: flag for flag in flags_of_help(LLAMA, engine="llama_server")}
    assert {name: flag.takes for name, flag in flags.items()} == {
        "--help": "0", "--threads": "1", "--flash-attn": "1", "--cache-type-k": "1", "--split-mode": "1",
        "--no-mmap": "0", "--override-tensor": "1", "--cpu-range": "1", "--device": "1", "--spec-type": "1",
        "--control-vector-layer-range": "2", "--draft": "1", "--defrag-thold": "1", "--samplers": "1",
    }  # fmt: skip
    assert flags["--help"].names == ("-h", "--help", "--usage")
    assert flags["--threads"].names == ("-t", "--threads") and flags["--threads"].default == "-1"
    assert "LLAMA_ARG_THREADS" in flags["--threads"].help
    assert flags["--flash-attn"].choices == ("on", "off", "auto")
    assert flags["--device"].choices is None, "these are no names of devices"
    assert flags["--draft"].refused.endswith("use --spec-draft-n-max or --spec-ngram-mod-n-max")
    assert flags["--defrag-thold"].deprecated and not flags["--samplers"].deprecated
    assert flags["--split-mode"].choices == ("none", "layer", "row")


def test_a_text_that_is_no_help_has_no_flags() -> None:
    assert flags_of_help("Traceback (most recent call last):\nImportError: libcudart.so\n", engine="sglang") == ()
