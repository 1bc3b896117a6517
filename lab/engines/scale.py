"""How fast time passes for the engines' own waits: 0.1 makes a poll of five seconds half a second long."""

import os

TIME_SCALE = float(os.environ.get("LAB_TIME_SCALE", "1"))
