"""The sixteen stories that must work, by number, with their titles."""

TITLES = {
    1: "eight cards, workers of other names that ignore SIGTERM: all of them free before the launch",
    2: "the clean path: no question after the approval",
    3: "running against proven flags; one click back to the proven ones",
    4: "what the engine switches off by itself is shown",
    5: "a checkpoint that turns the KV cache to FP8 is named before the restart",
    6: "does it fit, for bf16 and FP8, with the arithmetic",
    7: "a first start that cannot fit is never blamed on left-over memory",
    8: "each launch has its own log, and the page says which launch",
    9: "the earliest cause of a failed start, with a link to its line",
    10: "both memory pools of a hybrid model",
    11: "nothing is killed by name; a stranger only after its own confirmation",
    12: "output that is cut, empty, late or odd is unknown, and unknown opens nothing",
    13: "engine versions a profile was proven with; a completion a person can read",
    14: "a deployment moves to another host",
    15: "tokens per second, measured and kept",
    16: "port or cards busy for a while: measured, shown, gone on the moment they are free",
}
