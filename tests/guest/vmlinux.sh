# shellcheck shell=bash
# Takes the uncompressed kernel out of a compressed image. QEMU can start it directly, which saves
# several seconds of every emulated boot: firmware stages and decompression are slow there.

# vmlinux_extract IMAGE TARGET: fails, and leaves no TARGET, if IMAGE cannot be started in this way.
vmlinux_extract() {
    local image=$1 target=$2 start length
    # Fields of the x86 boot protocol: setup_sects, payload_offset and payload_length.
    start=$((($(image_number "$image" 497 1) + 1) * 512 + $(image_number "$image" 584 4)))
    length=$(image_number "$image" 588 4)
    if ! image_decompress "$image" "$start" "$length" >"$target" 2>/dev/null || ! vmlinux_has_entry "$target"; then
        rm -f "$target"
        return 1
    fi
}

image_number() {
    od -An -t "u$3" -j "$2" -N "$3" "$1" | tr -d ' '
}

image_decompress() {
    local image=$1 start=$2 length=$3
    # Except with gzip, the payload ends with four bytes of length that the compression tools do not expect.
    case $(od -An -t x1 -j "$start" -N 4 "$image" | tr -d ' ') in
        1f8b*)    image_bytes "$image" "$start" "$length" | gzip -d -c ;;
        fd377a58) image_bytes "$image" "$start" $((length - 4)) | xz -d -c ;;
        28b52ffd) image_bytes "$image" "$start" $((length - 4)) | zstd -d -c ;;
        *)        return 1 ;;
    esac
}

image_bytes() {
    dd if="$1" bs=1M skip="$2" count="$3" iflag=skip_bytes,count_bytes status=none
}

# Whether the ELF file has the note that names its PVH entry point (name "Xen", type 18).
vmlinux_has_entry() {
    LC_ALL=C grep -qaP '\x04\x00\x00\x00[\x04\x08]\x00\x00\x00\x12\x00\x00\x00Xen\x00' "$1"
}
