#!/usr/bin/env bash
# Make a virtual environment with the distributions in editable form and some of the root's dependency groups.
# usage: venv.sh DIR PYTHON CONSTRAINTS GROUP...
set -euo pipefail
dir=$1 python=$2 constraints=$3
shift 3
cd "$(dirname "$0")/.."

new_enough='import sys; sys.exit(sys.version_info < (3, 11))'
if ! "$python" -c "$new_enough" 2>/dev/null; then
    {
        echo "error: Pillion needs Python 3.11 or newer; '$python' is $("$python" --version 2>/dev/null || echo 'not there')."
        for minor in 3.13 3.12 3.11; do
            other=$(scripts/find_python.sh $minor) && echo "       Found here: make PYTHON=$other ..." && break
        done || true
    } >&2
    exit 1
fi

# A folder left by an interpreter that is gone or too old is made anew.
if ! "$dir/bin/python" -c "$new_enough" 2>/dev/null || ! "$dir/bin/python" -m pip --version >/dev/null 2>&1; then
    "$python" -m venv --clear "$dir"
fi
bin=$dir/bin
pip() { "$bin/python" -m pip --disable-pip-version-check "$@"; }

echo "setup: $dir ($("$bin/python" --version), $constraints)"
groups=()
for group in "$@"; do groups+=(--group "$group"); done
pip install -qq -U -c "$constraints" pip hatchling editables
pip install -qq -c "$constraints" --no-build-isolation "${groups[@]}" \
    -e 'core[fast,fastapi]' -e integrations/starlette -e integrations/fastapi
touch "$dir/.ready"
