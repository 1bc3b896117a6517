"""How calls of tools are read."""


class FunctionCallParser:
    """The names; what they do is not simulated."""

    ToolCallParserEnum: dict[str, object] = {
        "deepseekv3": None, "deepseekv31": None, "deepseekv32": None, "glm": None, "glm45": None,
        "glm47": None, "gpt-oss": None, "kimi_k2": None, "lfm2": None, "llama3": None, "mimo": None,
        "mistral": None, "pythonic": None, "qwen": None, "qwen25": None, "qwen3_coder": None,
        "step3": None, "step3p5": None, "minimax-m2": None, "trinity": None, "interns1": None,
        "hermes": None, "gigachat3": None,
    }  # fmt: skip
