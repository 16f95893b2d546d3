"""What nvcc and NVRTC compile for: a GPU's architecture, or sm_90a, which has more instructions than sm_90.

ptxas refuses these instructions for sm_90, and code for sm_90a runs on no other GPU than Hopper's. So a text is built
for sm_90a only if it has one of them: `wgmma`, `setmaxnreg`, `tensormap.replace`, or `.multicast::cluster`, about which
ptxas warns for sm_90. All else of the bulk copy engine, mbarriers and clusters is in sm_90 (tried on ptxas 13.2).
"""

import re
from pathlib import Path

from utils.cuda.common import cxx
from utils.cuda.common.preprocessor import included

__all__ = ["target", "target_of_text"]

_NEEDS_MORE = re.compile(
    r"\b(?:wgmma|setmaxnreg|tensormap\.replace|multicast::cluster)\b|\b(?:setmaxnreg|tensormap_replace)_"
)


def target(capability, *texts) -> str:
    """The architecture for a GPU of `capability` (90 for 9.0) and CUDA texts, without the word in front: '90a'."""
    return f"{capability}a" if capability == 90 and any(map(_needs_more, texts)) else str(capability)


def target_of_text(capability, source, options=()) -> str:
    """The same for one text and the headers of its own that it includes; `options` are NVRTC's."""
    if capability != 90:
        return str(capability)
    headers = (Path(path).read_text(errors="replace") for path, _ in included(source, options=options))
    return target(capability, source, *headers)


def _needs_more(text) -> bool:
    return bool(_NEEDS_MORE.search(text)) and any(_NEEDS_MORE.search(token.text) for token in cxx.tokens(text))
