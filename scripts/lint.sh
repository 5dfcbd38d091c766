#!/usr/bin/env bash
# Every check of the code, all of them even when one fails. The tools are first on PATH; the arguments are what to type-check.
set -u
failed=()
check() { # NAME COMMAND...
    local name=$1 log
    shift
    if log=$("$@" 2>&1); then
        echo "ok    $name"
    else
        printf '%s\n' "$log"
        echo "FAIL  $name"
        failed+=("$name")
    fi
}
check "ruff check" ruff check --quiet --output-format concise .
check "ruff format" ruff format --check .
check "mypy --strict" mypy --no-error-summary "$@"
check "pyright" pyright --pythonpath "$(command -v python)"
check "import-linter" lint-imports --no-cache
if [ ${#failed[@]} -gt 0 ]; then
    echo "failed: ${failed[*]}" >&2
    exit 1
fi
