"""Networks of flax and haiku, where these are installed."""

import importlib.util

HAVE = all(importlib.util.find_spec(name) is not None for name in ("flax", "haiku"))
collect_ignore_glob = [] if HAVE else ["test_*.py"]
