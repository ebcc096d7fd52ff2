"""The examples in docstrings: indented code behind a paragraph that ends with a colon."""

import re
import textwrap


def examples_in(text: str) -> list[str]:
    """Return the examples of a docstring, as `inspect.cleandoc` returned it."""
    blocks = re.findall(r":\n\n((?: {4}.*(?:\n+(?= {4})|\Z|\n))+)", text)
    return [textwrap.dedent(block).strip("\n") for block in blocks]
