#!/usr/bin/env bash
# Print the path of a working CPython of the given minor version (`3.13`); exit 1 if this machine has none.
# A name on PATH may be a shim that only prints an error, so each candidate is asked for its version.
set -u
want=$1
shopt -s nullglob
candidates=("python$want" python3)
candidates+=("${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$want"*/bin/python)
candidates+=("$HOME"/.local/share/uv/python/cpython-"$want"*/bin/python3)
ask='import sys; v = sys.version_info
if sys.implementation.name == "cpython" and "%d.%d" % v[:2] == sys.argv[1] and sys.version.find("free-threading") < 0: print(sys.executable)'
for candidate in "${candidates[@]}"; do
    found=$("$candidate" -c "$ask" "$want" 2>/dev/null) && [ -n "$found" ] && echo "$found" && exit 0
done
exit 1
