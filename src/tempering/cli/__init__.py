"""The command line: one command a question, each a call of one public function."""

from tempering.cli.commands import app, main

__all__ = ["app", "main"]
