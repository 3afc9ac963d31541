"""What people read when something is wrong: every message of the package, against the plain-English part of the style.

A reader's check, not a mould: it refuses what was found hard to read, and says nothing about the rest.
"""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

import tempering

SOURCE = Path(tempering.__file__).parent
GLOSSARY = Path(__file__).parents[1] / "docs" / "glossary.md"
INTERNAL = ("DamageError", "ValueError", "AttributeError", "TypeError", "NotImplementedError", "AssertionError")
MOST_WORDS = 75  # more is not read

# what was hard to read, and what to write
HARD = {
    r"\b(?:one|two|\w*value|array\)|number|draws|probability|derivative|iterations|steps) an? "
    r"(?:draw|second|rung|chain|kernel|coordinate|component|particle)\b": "per draw, per second",
    r"\bit is none\b|\}\'? is none\b": "is not",
    r"\bgone on with\b": "continued, resumed",
    r"\bbe had\b": "be obtained",
    r"\bmust say what\b": "does not say which",
    r"\bweighs? as much as\b": "is worth about",
    r"\bhardly been\b": "few",
    r"\bbring the hottest\b": "raise the smallest k",
    r"\b(?:raise|lower) tune\b": "tune for longer",
    r"\.py:\d|\bline \d+ of tempering\b": "no place in our own files",
    r"\s{2,}": "one space between words",
    r"\b(?:please|simply|just|obviously|of course)\b": "leave it out",
}
# words that were coined here: in a message only if the glossary has them
COINED = {
    "rung", "ladder", "leg", "tour", "round", "share", "rule", "barrier", "reference", "energy", "base", "pseudo-prior",
    "population", "ensemble", "door", "verdict", "quantity", "engine", "checkpoint", "block", "kernel", "path",
    "stretch", "course", "standing", "begun", "keeper", "tilt", "node", "piece", "recipe",
}  # fmt: skip


def text_of(node):
    """Return the text of a literal, with {} for what is filled in; None if there is none."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        parts = [text_of(side) for side in (node.left, node.right)]
        return None if parts == [None, None] else "".join(part or "{}" for part in parts)
    if isinstance(node, ast.IfExp):
        return text_of(node.body) or text_of(node.orelse)
    return None


def messages_of(tree):
    """Yield what is raised or warned of anywhere in a tree; not reasons that another sentence is made of."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            call = node.exc
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "warnings.warn":
            call = node
        else:
            continue
        if ast.unparse(call.func).split(".")[-1] in INTERNAL:
            continue
        for argument in call.args:
            text = text_of(argument)
            if text is not None and len(text.split()) > 3:
                yield text


@cache
def all_messages():
    return [
        (str(path.relative_to(SOURCE)), text)
        for path in sorted(SOURCE.rglob("*.py"))
        for text in messages_of(ast.parse(path.read_text(encoding="utf-8")))
    ]


@cache
def explained():
    bold = re.findall(r"^\| \*\*(.+?)\*\* \|", GLOSSARY.read_text(encoding="utf-8"), re.MULTILINE)
    return {word.strip().lower() for entry in bold for word in entry.split(",")}


def faults(text):
    """Return what a reader would stumble over in a message."""
    found = [f"write: {better}" for hard, better in HARD.items() if re.search(hard, text, re.IGNORECASE)]
    if not re.search(r"(?:[.?!)]|\{\}|\.\.\.)$", text):
        found.append("ends without a full stop")
    if len(text.split()) > MOST_WORDS:
        found.append(f"has {len(text.split())} words")
    words = {word.lower() for word in re.findall(r"[A-Za-z][a-z]+(?:-[a-z]+)?", re.sub(r"\w+[=(.]\S*", "", text))}
    singular = {word[:-2] if word.endswith("ches") else word.removesuffix("s") for word in words} | words
    found += [f"{word!r} is not in the glossary" for word in sorted((singular & COINED) - explained())]
    return found


def test_messages_are_found():
    assert len(all_messages()) > 400


def test_no_message_makes_a_reader_stumble():
    poor = [f"{where}: {text}\n    {', '.join(found)}" for where, text in all_messages() if (found := faults(text))]
    assert not poor, "\n".join(["", *poor])


@pytest.mark.parametrize(
    "text",
    [
        "A mixture needs one positive probability a kernel.",
        "The folder must be a checkpoint, but it is none.",
        "A run can be gone on with where it was made.",
        "All draws together weigh as much as 57 cold ones.",
        "The keeper must follow the one before it.",
        "The rule must be one of these",
        "Something went wrong in loops.py:12.",
        " ".join(["word"] * 80) + ".",
    ],
)
def test_control_what_was_hard_to_read_is_seen(text):
    assert faults(text)


def test_the_collector_sees_every_way_a_message_is_written():
    code = 'raise InputError(f"a {x} b " "c d." + (" yes" if y else " no"))\nwarnings.warn(f"one two three {four}.")'
    assert list(messages_of(ast.parse(code))) == ["a {} b c d. yes", "one two three {}."]


def test_the_glossary_is_in_the_navigation():
    assert "glossary.md" in (GLOSSARY.parents[1] / "mkdocs.yml").read_text(encoding="utf-8")
