from .srt import VERSION

__version__ = VERSION
