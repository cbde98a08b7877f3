# shellcheck shell=bash disable=SC2154 # run sets guest_directory, kernel.sh the lists of modules
# Builds the guest's initramfs: busybox, the modules to load with their order, and the guest's own scripts.

# initramfs_prepare DIRECTORY VERSION: prints the path of an initramfs for the kernel in DIRECTORY. Its
# name carries a checksum of all that goes into it, so a changed script gets a new one.
initramfs_prepare() {
    local directory=$1 version=$2 key path staging
    key=$(cat "$guest_directory"/{init,network,initramfs.sh,kernel.sh} "$(busybox_path)" | sha256sum | cut -c1-16)
    path=$directory/initramfs-$key.cpio
    if [ ! -e "$path" ]; then
        staging=$(mktemp -d "$directory/.staging.XXXXXX")
        if ! initramfs_build "$staging/root" "$directory" "$version" >"$staging/log" 2>&1 ||
            ! (cd "$staging/root" && find . | cpio -o -H newc --quiet) >"$staging/cpio" 2>>"$staging/log"; then
            tail -n 5 "$staging/log" >&2
            rm -rf "$staging"
            fail "could not build the guest's initramfs for Linux $version (the last lines are above)"
        fi
        mv "$staging/cpio" "$path"
        rm -rf "$staging"
    fi
    echo "$path"
}

busybox_path() {
    # Debian's static build; a busybox linked against libc cannot start without the host's root.
    command -v busybox || fail "busybox is missing; run: tests/support/packages.sh guest"
}

initramfs_build() {
    local root=$1 directory=$2 version=$3
    mkdir -p "$root"/{bin,dev,proc,sys,run,share,modules,lower,memory,host} &&
        cp "$(busybox_path)" "$root/bin/busybox" &&
        cp "$guest_directory/init" "$guest_directory/network" "$root/" &&
        chmod 755 "$root/init" &&
        { initramfs_modules "$root" "$directory" "$version" early "${guest_modules_early[@]}" || true; } &&
        initramfs_modules "$root" "$directory" "$version" boot "${guest_modules_boot[@]}" &&
        initramfs_modules "$root" "$directory" "$version" rdma "${guest_modules_rdma[@]}" &&
        initramfs_modules "$root" "$directory" "$version" dummy "${guest_modules_dummy[@]}" &&
        initramfs_modules "$root" "$directory" "$version" veth "${guest_modules_veth[@]}"
}

# initramfs_modules ROOT DIRECTORY VERSION SET NAME...: copies the modules NAME... and what they depend on,
# and lists them in ROOT/modules/SET in the order in which they can be loaded.
initramfs_modules() {
    local root=$1 directory=$2 version=$3 set=$4 dependencies file name
    shift 4
    : >"$root/modules/$set"
    dependencies=$(modprobe -d "$directory" -S "$version" --show-depends -a "$@") || return 1
    while read -r file; do
        name=$(basename "$file")
        name=${name%%.ko*}.ko
        [ ! -e "$root/modules/$name" ] || continue
        # busybox's insmod knows no compressed modules.
        case $file in
            *.zst) zstd -q -d -c "$file" ;;
            *.xz)  xz -d -c "$file" ;;
            *.gz)  gzip -d -c "$file" ;;
            *)     cat "$file" ;;
        esac >"$root/modules/$name" || return 1
        echo "$name" >>"$root/modules/$set"
    done < <(sed -nE 's/^insmod (.*\.ko(\.[a-z]+)?)( .*)?$/\1/p' <<<"$dependencies")
}
