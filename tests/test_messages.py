"""Every error that the package raises on purpose says what must hold, what came, and what to do."""

import ast
import re
from pathlib import Path

import pytest

import tempering
from tempering import errors

SOURCE = Path(tempering.__file__).parent
FILLED = "\N{BULLET}"
OWN = {name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, Exception)}


def text_of(node):
    """Return the words of a message, FILLED for what is filled in; None where it is made elsewhere."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else FILLED for part in node.values)
    if isinstance(node, ast.BinOp):
        return (text_of(node.left) or FILLED) + (text_of(node.right) or FILLED)
    if isinstance(node, ast.IfExp):
        return text_of(node.body)
    return None


def messages(source, name):
    """Yield (place, message) of every error of ours that is raised with words of its own."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and ast.unparse(node.exc.func) in OWN:
            message = text_of(node.exc.args[0]) if node.exc.args else None
            if message is not None:
                yield f"{name}:{node.lineno}", message


def is_lacking(message):
    """Whether a message does not say what came, or ends before it says what to do.

    Advice follows a full stop, a colon or a semicolon; a list of all that is allowed is advice too. The place in a
    file, with which some messages begin, shows what came.
    """
    words = re.sub(rf"^{FILLED}(:({FILLED}|\d))?: ", "", message)
    if not re.search(r"\w{4}.*\w{4}", words):
        return False  # made elsewhere
    says_what_came = FILLED in message or re.search(r"\b(but|no|not|only|neither|cannot)\b", words, re.IGNORECASE)
    advice = rf"[.:;)] (\w|{FILLED})|must (be|begin with) (one of|')"
    return not (says_what_came and re.search(advice, words))


FILES = sorted(SOURCE.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_messages_say_what_came_and_what_to_do(path):
    found = messages(path.read_text(), str(path.relative_to(SOURCE)))
    assert [f"{place}: {message}" for place, message in found if is_lacking(message)] == []


def test_control_a_message_without_advice_is_seen():
    source = 'raise InputError(f"The size must be positive, but is {n}.")\nraise InputError("Bad size. Try again.")'
    assert [is_lacking(message) for _, message in messages(source, "x.py")] == [True, True]
    placed = 'raise InputError(f"{path}:{line}: the size must be positive, but is {n}.")'
    assert [is_lacking(message) for _, message in messages(placed, "x.py")] == [True]
    better = (
        'raise InputError(f"The size must be positive, but is {n}. Pass 1 or more.")\n'
        'raise InputError(f"{path}:{line}: the rule must be one of {rules}, but is {rule}.")'
    )
    assert [is_lacking(message) for _, message in messages(better, "x.py")] == [False, False]


def test_there_are_messages_to_be_read():
    assert sum(len(list(messages(path.read_text(), path.name))) for path in FILES) > 150
