"""Run the README's quickstart and write what it prints into the README."""

import contextlib
import io
import re
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def main() -> None:
    """Replace the block after "It prints:"."""
    text = README.read_text(encoding="utf-8")
    code = re.search(r"^## Quickstart$.*?^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert code is not None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code[1], "README.md", "exec"), {"__name__": "quickstart"})
    lines = "\n".join(line.rstrip() for line in printed.getvalue().strip().splitlines())
    block = f"It prints:\n\n```text\n{lines}\n```\n"
    new = re.sub(r"It prints:\n\n```text\n.*?^```\n", lambda _: block, text, flags=re.MULTILINE | re.DOTALL)
    README.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
