#!/usr/bin/env bash
# Renew constraints.txt (the newest of everything) and constraints-oldest.txt (the group `oldest`, and the newest tools).
# Versions only, no addresses. Resolved on the oldest supported Python, so that every pin can be had there; what a
# newer Python needs on top, and the systems that the bench compares with, are added from the newer one.
set -euo pipefail
cd "$(dirname "$0")/.."
old=$(scripts/find_python.sh 3.11) && new=$(scripts/find_python.sh 3.13) || {
    echo "error: pinning needs Python 3.11 and 3.13" >&2
    exit 1
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
: >"$work/none"

freeze() { "$1/bin/python" -m pip freeze --all --exclude-editable | grep -viE '^(setuptools|wheel)==' | grep '=='; }

write() { # FILE TITLE
    { printf '# %s\n# Made by `make pins`.\n' "$2"; LC_ALL=C sort -fu "$work/pins"; } >"$1"
}

scripts/venv.sh "$work/a" "$old" "$work/none" build test newest lint demo
freeze "$work/a" >"$work/pins"
scripts/venv.sh "$work/b" "$new" "$work/pins" build test newest bench
freeze "$work/b" >>"$work/pins"
write constraints.txt "The development tools and all they need, pinned."

scripts/venv.sh "$work/c" "$old" "$work/none" build test oldest
freeze "$work/c" >"$work/pins"
write constraints-oldest.txt "The oldest FastAPI served and what belongs to it (pyproject.toml, group oldest)."
