#!/bin/sh
# Build the sdist and the wheel, check their metadata, and try the wheel, without extras and outside the
# repository, in a fresh environment of every Python given: `release/check.sh python3.11 python3.12`.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/tempering-release.XXXXXX")
trap 'rm -rf "$work"' EXIT

echo "== sdist and wheel"
"${1:-python3}" -m venv "$work/build"
"$work/build/bin/python" -m pip install --quiet build twine
"$work/build/bin/python" -m build --outdir "$work/dist" "$root" >"$work/build.log" || { cat "$work/build.log"; exit 1; }
"$work/build/bin/python" -m twine check --strict "$work"/dist/*
rm -rf "$root/dist" && cp -r "$work/dist" "$root/dist"
rm -rf "$work/build"

for python in "${@:-python3}"; do
    echo "== $("$python" --version): the wheel without extras"
    "$python" -m venv "$work/env"
    "$work/env/bin/python" -m pip install --quiet --no-compile "$work"/dist/*.whl  # what is imported is compiled then
    mkdir -p "$work/away" && cd "$work/away"
    "$work/env/bin/python" "$root/release/try_wheel.py" "$root/README.md" "$work/env/bin/tempering"
    cd "$root" && rm -rf "$work/env" "$work/away"
done
echo "The release can be made: $root/dist"
