"""Write a tiny random Llama checkpoint that the real llama.cpp loads: `python -m lab.engines.tiny_gguf OUT.gguf`.

Half a megabyte, made in a fraction of a second, always the same bytes of weights. It speaks nonsense, in letters.
"""

import sys
from pathlib import Path

LAYERS, WIDTH, HEADS, FEED_FORWARD, CONTEXT = 2, 64, 4, 128, 512
SPECIALS = 3 + 256
_NORMAL, _UNKNOWN, _CONTROL, _BYTE = 1, 2, 3, 6


def write_tiny_gguf(path: Path) -> Path:
    """Write the checkpoint to `path` (replaced as a whole) and return it."""
    import gguf

    draft = path.with_name(f".{path.name}.new")
    writer = gguf.GGUFWriter(str(draft), "llama")
    writer.add_name("tiny-random")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_file_type(0)
    _add_weights(writer, vocabulary=_add_vocabulary(writer))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    draft.replace(path)
    return path


def _add_vocabulary(writer) -> int:  # type: ignore[no-untyped-def]  # gguf has no types
    """Three specials, the 256 bytes, and each letter with and without a space before it; returns the size."""
    letters = [bytes([code]) for code in range(ord("a"), ord("z") + 1)]
    words = letters + ["▁".encode() + letter for letter in letters]
    bytes_ = [f"<0x{value:02X}>".encode() for value in range(256)]
    writer.add_tokenizer_model("llama")
    writer.add_token_list([b"<unk>", b"<s>", b"</s>", *bytes_, *words])
    writer.add_token_types([_UNKNOWN, _CONTROL, _CONTROL] + [_BYTE] * len(bytes_) + [_NORMAL] * len(words))
    writer.add_token_scores([0.0] * (3 + len(bytes_)) + [-float(rank) for rank in range(len(words))])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    return 3 + len(bytes_) + len(words)


def _add_weights(writer, *, vocabulary: int) -> None:  # type: ignore[no-untyped-def]  # gguf has no types
    import numpy

    random = numpy.random.default_rng(0)

    def add(name: str, *shape: int) -> None:
        writer.add_tensor(name, (random.standard_normal(shape) * 0.05).astype(numpy.float32))

    def add_norm(name: str) -> None:
        writer.add_tensor(name, numpy.ones(WIDTH, numpy.float32))

    add("token_embd.weight", vocabulary, WIDTH)
    add_norm("output_norm.weight")
    output = (random.standard_normal((vocabulary, WIDTH)) * 0.05).astype(numpy.float32)
    output[:SPECIALS] = 0  # it says letters, never single bytes: those would not be text
    writer.add_tensor("output.weight", output)
    for block in (f"blk.{layer}" for layer in range(LAYERS)):
        for part in ("attn_q", "attn_k", "attn_v", "attn_output"):
            add(f"{block}.{part}.weight", WIDTH, WIDTH)
        add_norm(f"{block}.attn_norm.weight")
        add_norm(f"{block}.ffn_norm.weight")
        add(f"{block}.ffn_gate.weight", FEED_FORWARD, WIDTH)
        add(f"{block}.ffn_up.weight", FEED_FORWARD, WIDTH)
        add(f"{block}.ffn_down.weight", WIDTH, FEED_FORWARD)


if __name__ == "__main__":
    write_tiny_gguf(Path(sys.argv[1]))
