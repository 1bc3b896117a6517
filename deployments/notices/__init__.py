"""Telling people by chat or mail what waits for them and what failed."""
