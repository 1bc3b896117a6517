"""How reasoning is told from the answer."""


class ReasoningParser:
    """The names; what they do is not simulated."""

    DetectorMap: dict[str, object] = {
        "deepseek-r1": None, "deepseek-v3": None, "glm45": None, "gpt-oss": None, "kimi": None,
        "kimi_k2": None, "qwen3": None, "qwen3-thinking": None, "minimax": None,
        "minimax-append-think": None, "step3": None, "step3p5": None, "nano_v3": None, "interns1":
        None,
    }  # fmt: skip
