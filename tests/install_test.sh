#!/usr/bin/env bash
# Installs to a fresh directory and uses what is there as a stranger would: the header alone, in C and C++, the example
# of README.md against the shared and the static library, both by CMake, also where the directory was moved, and the
# package for Python. Then it uninstalls.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: tests/install_test.sh BUILD_DIR

Exit status: 0 all is well, 1 something is not, 77 there is nothing to test (and a line says why).
TEXT
}

case ${1:-} in
    --help | -h) usage; exit 0 ;;
    '' | -*) usage >&2; exit 2 ;;
esac
build=$(cd "$1" && pwd)
# shellcheck source=tests/support/system.sh
. "$(dirname "${BASH_SOURCE[0]}")/support/system.sh"
prefix=$scratch/prefix

# A program that is linked to a sanitized library needs the sanitizer's runtime itself.
[ -z "$(sed -n 's/^OKV_SANITIZE:[A-Z]*=//p' "$build/CMakeCache.txt")" ] || skip "$build is built with sanitizers"

logged cmake --install "$build" --prefix "$prefix"
pc=$(find "$prefix" -name okv.pc)
[ -n "$pc" ] || fail "okv.pc was not installed"
for program in okv-server okv kv-bench; do
    [ -x "$prefix/bin/$program" ] || fail "bin/$program was not installed"
    [ -s "$prefix/share/man/man1/$program.1" ] || fail "the man page $program(1) was not installed"
    grep -q "^complete .* $program\b" "$prefix/share/bash-completion/completions/$program" ||
        fail "the completion of $program was not installed"
done
for page in man3/okv.3 man3/okv_open.3 man5/okv-server.conf.5 man7/okv-uri.7; do
    [ -s "$prefix/share/man/$page" ] || fail "the man page $page was not installed"
done
list=$prefix/share/okv/okv.json
[ -s "$list" ] || fail "share/okv/okv.json was not installed"
export PKG_CONFIG_PATH=${pc%/*}
config() {
    pkg-config "$@" okv
}
libdir=$(realpath "$(config --variable=libdir)")
export LD_LIBRARY_PATH=$libdir
read -ra cflags < <(config --cflags)
read -ra shared < <(config --libs)
read -ra static < <(config --static --libs)
read -ra cc <<<"${CC:-cc}"
read -ra cxx <<<"${CXX:-c++}"
warnings=(-Wall -Wextra -pedantic -Werror)

# commands PAGE MARKER: the block behind it, in $scratch/documented.
commands() {
    awk -v marker="<!-- $2 -->" '$0 == marker { marked = 1 }
         marked && /^```$/ { exit }
         inside { print }
         marked && /^```sh$/ { inside = 1 }' "$1" >"$scratch/documented"
    [ -s "$scratch/documented" ] || fail "$1 has no commands after <!-- $2 -->"
}

# ---- the header, alone ----
header_warnings=("${warnings[@]}" -Wshadow -Wconversion -Wsign-conversion -Wcast-qual -Wredundant-decls -Wundef)
printf '#include <okv.h>\n#include <okv_admin.h>\n' | tee "$scratch/alone.c" >"$scratch/alone.cc"
echo 'int main(void) { return okv_version() == 0; }' | tee -a "$scratch/alone.c" >>"$scratch/alone.cc"
"${cc[@]}" -std=c11 "${header_warnings[@]}" "${cflags[@]}" "$scratch/alone.c" -o "$scratch/alone" "${shared[@]}" ||
    fail "okv.h does not compile as C11"
"$scratch/alone" || fail "a program that calls okv_version() failed"
if command -v "${cxx[0]}" >/dev/null; then
    "${cxx[@]}" -std=c++11 "${header_warnings[@]}" -Wold-style-cast "${cflags[@]}" "$scratch/alone.cc" -o "$scratch/alone" "${shared[@]}" ||
        fail "okv.h does not compile as C++"
    "$scratch/alone" || fail "a C++ program that calls okv_version() failed"
else
    echo "install_test: left out: C++ (there is no ${cxx[0]})"
fi
commands "$root/client/README.md" 'another prefix'
sed -i "s|DIR/lib|$libdir|g; s|^cc program.c|${cc[*]} alone.c|" "$scratch/documented"
(cd "$scratch" && env -u LD_LIBRARY_PATH -u PKG_CONFIG_PATH bash -e documented && env -u LD_LIBRARY_PATH ./program) ||
    fail "the commands of client/README.md for another prefix failed"
# The list of constants is of this library, which it names.
for name in "$(sed -n 's/.*"library": "\(.*\)".*/\1/p' "$list")" "libokv.so.$("$prefix/bin/okv" --version | grep -oE '[0-9.]+$')"; do
    [ -e "$libdir/$name" ] || fail "there is no $name, which okv.json or okv --version names"
done
transports='rdma, tcp, tcps, local'
[ -z "$(find "$libdir" -name 'libokv-ofi.so.*')" ] || transports='rdma, ofi, tcp, tcps, local'
for program in okv-server okv kv-bench; do
    "$prefix/bin/$program" --version | grep -qx "transports: $transports" ||
        fail "the installed $program --version does not say 'transports: $transports'"
done

# ---- the package for Python ----
# The README of the package has the commands; its prefix is that of an installation without options.
package=$root/client/python
wheel=$(find "$prefix" -name 'okv-*.whl')
[ -n "$wheel" ] || fail "the wheel was not installed"
"$package/okv_build.py" "$scratch"
cmp "$wheel" "$scratch/${wheel##*/}" || fail "two wheels of the same sources differ"

# documented MARKER [VARIABLE=VALUE]: runs the block behind it, with nothing but that to lead it to libokv. Its python3 is the system's, which Debian's python3-venv is for.
documented() {
    commands "$package/README.md" "$1"
    sed -i "s|/usr/local|$prefix|g" "$scratch/documented"
    env -u LD_LIBRARY_PATH -u OKV_LIBRARY HOME="$scratch" "${@:2}" PATH="/usr/bin:$PATH" PIP_CONFIG_FILE=/dev/null bash -e "$scratch/documented" \
        >"$scratch/out" 2>&1 ||
        fail "the commands of $package/README.md after <!-- $1 --> failed: $(cat "$scratch/out")"
    [ "$(tail -n 1 "$scratch/out")" = "$("$prefix/bin/okv" --version | grep -oEm1 '[0-9]+\.[0-9.]+$')" ] ||
        fail "the package for Python is not of this version: $(cat "$scratch/out")"
}

documented 'without pip'
if PATH=/usr/bin:$PATH python3 -c 'import ensurepip' 2>/dev/null; then
    documented install "OKV_LIBRARY=$libdir/libokv.so.$("$prefix/bin/okv" --version | grep -oEm1 '[0-9]+\.[0-9]+' | head -n 1)"
    # Without it, the error says what would do; a virtual environment of the prefix itself needs nothing.
    ! env -u LD_LIBRARY_PATH "$scratch/okv/bin/python" -c 'import okv' 2>"$scratch/out" || fail "libokv is found by chance"
    grep -q 'run ldconfig as root .* else set OKV_LIBRARY to PREFIX/lib/libokv\.so\.' "$scratch/out" ||
        fail "the package does not say how to find libokv: $(cat "$scratch/out")"
    cp -r "$prefix" "$scratch/venv"
    env -u LD_LIBRARY_PATH PATH="/usr/bin:$PATH" PIP_CONFIG_FILE=/dev/null bash -ec "
        python3 -m venv '$scratch/venv'
        '$scratch/venv/bin/pip' install -q --no-index '$scratch/venv/share/okv/'okv-*.whl
        '$scratch/venv/bin/python' -c 'import okv'" || fail "the package does not find libokv of its virtual environment"
    "$scratch/okv/bin/python" -m pip uninstall -qy okv
    PIP_CONFIG_FILE=/dev/null "$scratch/okv/bin/python" -m pip install -q --no-index "$package" ||
        fail "pip does not install $package without a network"
    [ -e "$(cd / && "$scratch/okv/bin/python" -c 'import okv; print(okv.__path__[0])')/py.typed" ] ||
        fail "the package for Python has no types"
elif [ "${OKV_TEST_REQUIRE_TOOLS:-}" = 1 ]; then
    fail "there is no python3-venv; run: tests/support/packages.sh test"
else
    echo "install_test: left out: the wheel in a virtual environment (there is no python3-venv)"
fi

# ---- what a program loads is found beside libokv, without a search path, wherever both are ----
# fresh COMMAND...: without variables that lead to another libfabric or provider.
fresh() {
    env -u LD_LIBRARY_PATH -u FI_PROVIDER "$@"
}

# over_ofi PREFIX: programs of this installation meet over libfabric.
over_ofi() {
    local uri=ofi://127.0.0.1:$((20000 + RANDOM % 10000))
    serve env -u LD_LIBRARY_PATH "$1/bin/okv-server" --listen "$uri" --memory 16M
    fresh "$1/bin/okv" -t 120s -s "$uri" put key value || fail "okv of $1 meets no server over libfabric"
    fresh "$1/bin/kv-bench" -t 120s -s "$uri" --records 10 --operations 10 >/dev/null ||
        fail "kv-bench of $1 meets no server over libfabric"
    stop
}

# missing WHAT FIX: both programs and the library say so of the file that is not there, and okv doctor calls it a problem
# where the server's URI needs it.
missing() {
    local status=0 command uri=ofi://127.0.0.1:1
    for command in "okv-server --memory 16M --listen" "okv ping -s" "kv-bench -s"; do
        status=0
        # shellcheck disable=SC2086 # words
        fresh "$prefix/bin/"$command "$uri" >"$scratch/out" 2>&1 || status=$?
        grep -q "$1" "$scratch/out" || fail "$command does not say '$1': $(cat "$scratch/out")"
        grep -q "$2" "$scratch/out" || fail "$command does not say '$2': $(cat "$scratch/out")"
        [ $status -eq 3 ] || fail "$command ends with $status without a library"
    done
    status=0
    fresh "$prefix/bin/okv" doctor -s "$uri" >"$scratch/out" || status=$?
    grep -q "^problem  *libfabric  *$1" "$scratch/out" || fail "okv doctor does not say '$1': $(cat "$scratch/out")"
    grep -q -- "-> .*$2" "$scratch/out" || fail "okv doctor does not say '$2': $(cat "$scratch/out")"
    [ $status -eq 1 ] || fail "okv doctor ends with $status without a library"
    fresh env OKV_SERVER= "$prefix/bin/okv" doctor >"$scratch/out" || true
    grep -q "^note  *libfabric  *$1" "$scratch/out" || fail "okv doctor without a server does not say '$1'"
}

module=$(find "$libdir" -name 'libokv-ofi.so.*')
if [ -n "$module" ]; then
    for program in okv-server okv kv-bench; do
        fresh "$prefix/bin/$program" --version | grep -qx "transports: $transports" ||
            fail "$program does not find $module by itself"
    done
    over_ofi "$prefix"
    cp -r "$prefix" "$scratch/moved"
    mv "$module" "$scratch/module" # the moved ones find that of their own
    over_ofi "$scratch/moved"
    missing "ofi:// needs ${module##*/}, which is neither beside libokv" 'install libfabric-dev'
    "${cc[@]}" -shared -x c /dev/null -o "$scratch/libfabric.so.99" -Wl,-soname,libfabric.so.99
    "${cc[@]}" -shared -x c /dev/null -o "$module" -Wl,--no-as-needed -x none "$scratch/libfabric.so.99"
    mv "$scratch/libfabric.so.99" "$scratch/gone"
    missing "ofi:// needs libfabric.so.99, for ${module##*/}, and it is not installed" 'install libfabric1'
    "${cc[@]}" -shared -x c /dev/null -o "$module"
    missing "ofi:// needs ${module##*/}, and " 'install the one of this libokv'
    mv "$scratch/module" "$module"
fi

# ---- the example ----
[ -f "$root/README.md" ] || skip "there is no README.md with an example; the rest is well"
# The first block of C after the marker.
awk '/^<!-- example -->/ { marked = 1 }
     marked && /^```$/ && inside { exit }
     inside { print }
     marked && /^```c$/ { inside = 1 }' "$root/README.md" >"$scratch/example.c"
[ -s "$scratch/example.c" ] || fail "README.md has no block of C after <!-- example -->"
"${cc[@]}" -std=c11 "${warnings[@]}" "${cflags[@]}" "$scratch/example.c" -o "$scratch/example" "${shared[@]}" ||
    fail "the example does not compile against the shared library"
# Where both libraries are found, the linker takes the shared one.
mkdir "$scratch/static"
cp "$libdir/libokv.a" "$scratch/static/"
"${cc[@]}" -std=c11 "${warnings[@]}" "${cflags[@]}" "$scratch/example.c" -o "$scratch/example-static" \
    "-L$scratch/static" "${static[@]}" || fail "the example does not compile against the static library"
if [ -n "$module" ]; then
    "${cc[@]}" -std=c11 "${cflags[@]}" "$scratch/example.c" -o "$scratch/example-path" "-Wl,-rpath,$libdir" "${shared[@]}"
    ! fresh "$scratch/example-path" ofi://127.0.0.1:1 2>"$scratch/out" || fail "the example found a server at port 1"
    grep -q 'no server listens at 127.0.0.1' "$scratch/out" ||
        fail "a program with libokv beside ${module##*/} does not find it: $(cat "$scratch/out")"
fi
ldd "$scratch/example" | grep "=> $libdir/libokv\.so" >/dev/null || fail "the example is not linked to the installed library"
! ldd "$scratch/example-static" | grep libokv >/dev/null || fail "the static example is linked to the shared library"

uri=local://$scratch/okv.sock
serve "$prefix/bin/okv-server" --listen "$uri" --memory 16M
# It has the default deadlines: where it took as long, it says nothing and runs again.
guard=$((SECONDS + 120))
for example in example example-static; do
    begun=$SECONDS
    until timeout 300 "$scratch/$example" "$uri"; do
        if [ $((SECONDS - begun)) -lt 3 ] || [ $SECONDS -ge $guard ]; then
            fail "the $example of README.md failed against a server"
        fi
        begun=$SECONDS
    done
done

# ---- find_package() ----
mkdir "$scratch/project"
cp "$scratch/example.c" "$scratch/project/"
cat >"$scratch/project/CMakeLists.txt" <<'TEXT'
cmake_minimum_required(VERSION 3.22)
project(stranger LANGUAGES C)
find_package(okv ${WANTED} REQUIRED)
foreach(kind okv okv_static)
    add_executable(with_${kind} example.c)
    target_link_libraries(with_${kind} PRIVATE okv::${kind})
endforeach()
TEXT

# configure PREFIX WANTED: the project finds this version there, or fails; what it says is in $scratch/log.
configure() {
    rm -rf "$scratch/project/build"
    env -u PKG_CONFIG_PATH cmake -S "$scratch/project" -B "$scratch/project/build" -D "CMAKE_PREFIX_PATH=$1" \
        -D "CMAKE_C_COMPILER=${cc[0]}" -D "WANTED=$2" >"$scratch/log" 2>&1
}

# by_cmake PREFIX: both programs are built with what is there, and with nothing from elsewhere, and reach the server.
by_cmake() {
    configure "$1" 0.3 || fail "find_package(okv 0.3) does not find $1: $(cat "$scratch/log")"
    logged cmake --build "$scratch/project/build"
    fresh ldd "$scratch/project/build/with_okv" | grep "=> $1/lib.*/libokv\.so" >/dev/null ||
        fail "a program with okv::okv is not linked to that of $1"
    ! ldd "$scratch/project/build/with_okv_static" | grep libokv >/dev/null ||
        fail "a program with okv::okv_static is linked to the shared library"
    for program in with_okv with_okv_static; do
        until fresh "$scratch/project/build/$program" "$uri" >"$scratch/out" 2>&1; do
            [ $SECONDS -lt $((guard + 120)) ] || fail "$program of $1 does not reach the server: $(cat "$scratch/out")"
        done
    done
}

by_cmake "$prefix"
for wanted in 0.2 0.4 1.0; do
    ! configure "$prefix" $wanted || fail "find_package(okv $wanted) finds this version"
done
rm -rf "$scratch/moved"
mv "$prefix" "$scratch/moved" # nothing of the first directory is left
by_cmake "$scratch/moved"
rm "$(find "$scratch/moved" -name libokv.a)"
! configure "$scratch/moved" 0.3 || fail "find_package(okv) has okv::okv_static without libokv.a"
grep -q 'okv::okv_static' "$scratch/log" || fail "CMake does not say what is missing: $(cat "$scratch/log")"
stop

# ---- the target uninstall ----
# As README.md has it.
command=$(grep -oE 'cmake --build build/install --target uninstall' "$root/README.md") || fail "README.md does not say how to uninstall"
uninstall() {
    ${command/build\/install/"$build"} >"$scratch/log" 2>&1
}

DESTDIR=$scratch/root logged cmake --install "$build" --prefix "$prefix"
logged cmake --install "$build" --prefix "$prefix"
installed=$(find "$prefix" ! -type d)
mkdir "$prefix/share/others"
touch "$prefix/share/okv/theirs" "$prefix/bin/theirs"
DESTDIR=$scratch/root uninstall || fail "uninstall with DESTDIR fails: $(cat "$scratch/log")"
[ -z "$(find "$scratch/root" ! -type d)" ] || fail "uninstall with DESTDIR leaves $(find "$scratch/root" ! -type d)"
[ -z "$(find "$scratch/root" -name okv)" ] || fail "uninstall leaves directories of okv"
[ -e "$prefix/bin/okv" ] || fail "uninstall with DESTDIR removes what is installed without"
grep -qx "removed: $scratch/root$prefix/bin/okv" "$scratch/log" || fail "uninstall does not say what it removes"
uninstall || fail "uninstall fails: $(cat "$scratch/log")"
[ "$(find "$prefix" ! -type d | sort)" = "$prefix/bin/theirs"$'\n'"$prefix/share/okv/theirs" ] ||
    fail "uninstall leaves other files than those of others: $(find "$prefix" ! -type d)"
[ -d "$prefix/share/others" ] || fail "uninstall removes a directory of others"
while read -r file; do
    grep -qx "removed: $file" "$scratch/log" || fail "uninstall does not say that it removed $file"
done <<<"$installed"
uninstall || fail "a second uninstall fails: $(cat "$scratch/log")"
grep -qx "not there: $prefix/bin/okv" "$scratch/log" || fail "a second uninstall does not say what is not there"
! grep -q '^removed' "$scratch/log" || fail "a second uninstall removes something: $(cat "$scratch/log")"

echo "install_test: all is well"
