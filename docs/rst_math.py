"""Let docstrings keep the mathematics of numpydoc: turn it into what the pages of this documentation understand."""

import re
from typing import Any

import griffe

BLOCK = re.compile(r"^( *)\.\. math:: *(.+(?:\n\1 +\S.*)*)", re.MULTILINE)
INLINE = re.compile(r":math:`([^`]+)`", re.DOTALL)


def converted(text: str) -> str:
    """Return a docstring with ``.. math::`` and ``:math:`` in dollars."""
    text = BLOCK.sub(lambda found: f"{found[1]}$$\n{found[1]}{' '.join(found[2].split())}\n{found[1]}$$", text)
    return INLINE.sub(lambda found: f"${' '.join(found[1].split())}$", text)


class RstMath(griffe.Extension):
    """Convert every docstring that is loaded."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Convert the docstring of one object."""
        if obj.docstring is not None:
            obj.docstring.value = converted(obj.docstring.value)
