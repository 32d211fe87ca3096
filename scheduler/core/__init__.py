"""What is compiled ahead of time: modules in plain Python, to which `.pxd` files give the types of C."""

import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

if not Path(__file__).with_name(f"queue{EXTENSION_SUFFIXES[0]}").exists():
    raise ImportError(
        f"{Path(__file__).parent} has no machine code for this Python ({sys.implementation.cache_tag}); "
        f"install sil-testbed with this Python, or run `make compiled` in a clone"
    )
