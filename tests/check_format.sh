#!/usr/bin/env bash
# clang-format over every C file and shellcheck over every shell script of the tree.
# Without them it is skipped, or fails when OKV_TEST_REQUIRE_TOOLS is 1.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

for tool in clang-format shellcheck; do
    command -v $tool >/dev/null || {
        echo "check_format: $tool is missing; run: tests/support/packages.sh test"
        [ "${OKV_TEST_REQUIRE_TOOLS:-}" = 1 ] && exit 1
        exit 77
    }
done

# All files of the tree, tracked or not; build trees are not part of it.
tree_files() {
    if [ -e .git ] && command -v git >/dev/null; then
        git -c safe.directory='*' ls-files -co --exclude-standard
    else
        find . -path ./build -prune -o -type f -printf '%P\n'
    fi | sort | while IFS= read -r file; do
        [ -f "$file" ] && printf '%s\n' "$file"
    done
}

# A script is known by its first line, since not every one has a suffix.
is_shell_script() {
    local first=
    case $1 in
        *.sh) return 0 ;;
        *) IFS= read -r first <"$1" 2>/dev/null || true ;;
    esac
    [[ $first =~ ^#!.*[/\ ](ba|da|a)?sh($|[[:space:]]) ]]
}

sources=() scripts=()
while IFS= read -r file; do
    case $file in
        *.c | *.h) sources+=("$file") ;;
        *) if is_shell_script "$file" 2>/dev/null; then scripts+=("$file"); fi ;;
    esac
done < <(tree_files)

if [ ${#sources[@]} -eq 0 ] || [ ${#scripts[@]} -eq 0 ]; then
    echo "check_format: found no files to look at"
    exit 1
fi
# Each version of clang-format lays out some lines in its own way; this tree keeps to that of 14.
version=$(clang-format --version)
if [[ $version != *"version 14."* ]]; then
    echo "check_format: skipped: the tree is formatted by clang-format 14, and this is ${version#*version }"
    exit 77
fi
status=0
# In as many processes as there are processors, each with a few files at a time.
printf '%s\0' "${sources[@]}" | xargs -0 -n 32 -P "$(nproc)" clang-format --dry-run -Werror || status=1
printf '%s\0' "${scripts[@]}" | xargs -0 -n 8 -P "$(nproc)" shellcheck -x || status=1
echo "check_format: ${#sources[@]} C files, ${#scripts[@]} shell scripts"
exit $status
