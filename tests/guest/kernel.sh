# shellcheck shell=bash disable=SC2034,SC2154 # run sets status_unprepared; initramfs.sh uses the lists
# Finds a kernel that has soft-RoCE as a module and keeps it, with its modules, in the cache.
# A cached kernel is a directory <cache>/<version>/ with kernel, which QEMU starts, vmlinuz, from which
# it was made, stamp, which tells whether vmlinuz is still the same, and lib/modules/<version>/.

# What the guest loads, as modprobe names. rdma_rxe comes before rdma_ucm: devices are taken from their
# users in reverse order of registration, and this order lets rdma_cm announce a removal first.
guest_modules_boot=(virtio_pci virtio_console 9pnet_virtio 9p overlay)
guest_modules_rdma=(rdma_rxe rdma_ucm)
guest_modules_dummy=(dummy)
guest_modules_veth=(veth sch_netem)
# rdma_rxe of older kernels asks for this one when it makes a device; loading it before saves the detour.
guest_modules_early=(crc32_generic)

# kernel_prepare CACHE: prints the version of a kernel that is complete in CACHE, fetching it first if
# there is none.
kernel_prepare() {
    local cache=$1 lock version
    if version=$(kernel_cached "$cache"); then
        echo "$version"
        return
    fi
    mkdir -p "$cache" || fail "cannot create the cache directory $cache; set XDG_CACHE_HOME to a writable place"
    exec {lock}>"$cache/lock"
    flock "$lock"
    # Another run may have fetched it while this one waited.
    version=$(kernel_cached "$cache") || version=$(kernel_from_machine "$cache") ||
        version=$(kernel_from_packages "$cache") || exit "$status_unprepared"
    exec {lock}>&-
    echo "$version"
}

kernel_cached() {
    local directory newest=
    for directory in "$1"/*/; do
        directory=${directory%/}
        kernel_is_complete "$directory" && newest+=${directory##*/}$'\n'
    done
    newest=$(printf '%s' "$newest" | sort -V | tail -n 1)
    [ -n "$newest" ] && echo "$newest"
}

kernel_is_complete() {
    [ -r "$1/kernel" ] && [ -e "$1/lib/modules/${1##*/}/modules.dep" ] &&
        [ "$(cat "$1/stamp")" = "$(kernel_stamp "$1")" ]
}

# Differs when an upgrade has replaced a kernel of the machine under the same version name.
kernel_stamp() {
    stat -L -c '%s %Y %Z' "$1/vmlinuz"
}

# The running machine's kernels: usable as they are if the image can be read (Ubuntu makes it readable
# for root only) and all modules are there (cloud kernels leave them out).
kernel_from_machine() {
    local cache=$1 modules version staging
    for modules in /lib/modules/*/; do
        version=$(basename "$modules")
        if [ ! -r "/boot/vmlinuz-$version" ] || ! kernel_has_modules / "$version"; then
            continue
        fi
        staging=$(mktemp -d "$cache/.staging.XXXXXX")
        mkdir -p "$staging/lib/modules"
        ln -s "/boot/vmlinuz-$version" "$staging/vmlinuz"
        ln -s "${modules%/}" "$staging/lib/modules/$version"
        kernel_publish "$staging" "$cache/$version"
        echo "$version"
        return 0
    done
    return 1
}

# kernel_has_modules ROOT VERSION: whether every module the guest loads is there or built in.
kernel_has_modules() {
    modprobe -d "$1" -S "$2" --show-depends -a "${guest_modules_boot[@]}" "${guest_modules_rdma[@]}" \
        "${guest_modules_dummy[@]}" "${guest_modules_veth[@]}" >/dev/null 2>&1
}

# Downloads the distribution's generic kernel without installing it; needs no root.
kernel_from_packages() {
    local cache=$1 image version staging
    image=$(kernel_image_package) || {
        as_root apt-get -q update >/dev/null 2>&1 || true
        image=$(kernel_image_package) ||
            fail "apt knows no kernel package to download; run 'apt-get update' as root and check the network, then run again"
    }
    version=${image#linux-image-}
    version=${version#unsigned-}
    note "downloading Linux $version into $cache (once)"
    staging=$(mktemp -d "$cache/.staging.XXXXXX")
    if ! kernel_download "$staging" "$image" "$version" >"$staging/log" 2>&1; then
        tail -n 5 "$staging/log" >&2
        rm -rf "$staging"
        fail "could not download and unpack $image (the last lines are above); check the network and the free space in $cache, then run again"
    fi
    kernel_has_modules "$staging" "$version" || {
        rm -rf "$staging"
        fail "the modules of $image lack soft-RoCE (rdma_rxe) or another module the guest needs; install a kernel that has it in /boot and /lib/modules"
    }
    kernel_publish "$staging" "$cache/$version"
    echo "$version"
}

# The name of the package that the distribution's kernel metapackage currently stands for.
kernel_image_package() {
    local meta image
    for meta in linux-image-amd64 linux-image-generic; do
        image=$(apt-cache depends "$meta" 2>/dev/null |
            sed -nE 's/^ *\|?Depends: (linux-image-[0-9].*)$/\1/p' | sed -n 1p)
        if [ -n "$image" ]; then
            echo "$image"
            return 0
        fi
    done
    return 1
}

# kernel_download STAGING IMAGE VERSION. Debian has image and modules in one package; Ubuntu splits off
# the modules, and those that servers rarely want, rdma_rxe among them, once more.
kernel_download() {
    local staging=$1 image=$2 version=$3 package packages=("$2")
    for package in "linux-modules-$version" "linux-modules-extra-$version"; do
        if apt-cache show "$package" >/dev/null 2>&1; then
            packages+=("$package")
        fi
    done
    mkdir "$staging/debs" "$staging/tree"
    (cd "$staging/debs" && apt-get -q download "${packages[@]}") || return 1
    # Display, sound and camera drivers are half of the modules' size and no use here.
    for package in "$staging"/debs/*.deb; do
        dpkg-deb --fsys-tarfile "$package" | tar -x -C "$staging/tree" --wildcards --no-anchored \
            --exclude='kernel/drivers/gpu' --exclude='kernel/drivers/media' --exclude='kernel/sound' \
            --exclude='usr/share' || return 1
    done
    # Debian and Ubuntu are moving /lib to /usr/lib at different times.
    mkdir -p "$staging/lib/modules" &&
        mv "$staging/tree/boot/vmlinuz-$version" "$staging/vmlinuz" &&
        { mv "$staging/tree/lib/modules/$version" "$staging/lib/modules/" ||
            mv "$staging/tree/usr/lib/modules/$version" "$staging/lib/modules/"; } &&
        mkdir "$staging/usr" && ln -s ../lib "$staging/usr/lib" &&
        depmod -b "$staging" "$version" && rm -rf "$staging/debs" "$staging/tree"
}

# kernel_publish STAGING DIRECTORY. The caller holds the lock; the rename makes the directory appear
# complete or not at all.
kernel_publish() {
    vmlinux_extract "$1/vmlinuz" "$1/kernel" || ln -s vmlinuz "$1/kernel"
    kernel_stamp "$1" >"$1/stamp"
    rm -f "$1/log"
    rm -rf "$2"
    chmod 755 "$1"
    mv -T "$1" "$2"
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo -n "$@"; fi
}
