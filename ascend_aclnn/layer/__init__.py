"""The layer: shims in front of CANN's libraries that forward every call and record it. docs/recording.md describes its use.

`exports` reads what libraries export, `generated` writes the C code of the shims, `build` compiles it, `run` starts programs.
"""

from ascend_aclnn.layer.build import build_layer
from ascend_aclnn.layer.run import Options, environment

__all__ = ["Options", "build_layer", "environment"]
