"""The modules of `benchmarks/`, which its programs import as they lie beside them."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[3] / "benchmarks"))
