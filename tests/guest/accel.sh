# shellcheck shell=bash
# Chooses how QEMU runs the guest: KVM where it is seen to work, else QEMU's own emulation (TCG).

# A /dev/kvm that opens proves little: under some hypervisors the guest then hangs in its firmware for
# ever. So the real kernel is booted once, and the verdict holds until the machine reboots.
accel_probe_seconds=10

# accel_options WANTED CACHE VERSION INITRAMFS: prints QEMU's options; WANTED is auto, kvm or tcg.
accel_options() {
    local wanted=$1 cpu=none
    if [ "$wanted" != tcg ]; then
        cpu=$(accel_kvm_cpu "$2" "$3" "$4")
    fi
    if [ "$cpu" != none ]; then
        echo "-accel kvm -cpu $cpu"
    elif [ "$wanted" = kvm ]; then
        fail "KVM does not work here (no access to /dev/kvm, or a guest did not boot in $accel_probe_seconds s); use --accel tcg"
    else
        echo "-accel tcg,thread=multi -cpu max"
    fi
}

# Prints the -cpu model with which KVM boots the guest, or none.
accel_kvm_cpu() {
    local cache=$1 version=$2 initramfs=$3 key verdict cpu
    if [ ! -r /dev/kvm ] || [ ! -w /dev/kvm ]; then
        echo none
        return
    fi
    key=$(cat /proc/sys/kernel/random/boot_id <(echo "$version") <(qemu-system-x86_64 --version) | sha256sum | cut -c1-16)
    verdict=$cache/kvm-$key
    if [ ! -s "$verdict" ]; then
        note "trying KVM (once per boot of this machine, up to $accel_probe_seconds s)"
        cpu=$(accel_probe "$cache/$version/kernel" "$initramfs")
        rm -f "$cache"/kvm-*
        echo "$cpu" >"$verdict.$$"
        mv "$verdict.$$" "$verdict"
    fi
    cat "$verdict"
}

accel_probe() {
    local cpu log found=none
    log=$(mktemp)
    # Nested under some hypervisors, QEMU can only start a guest with that one feature masked.
    for cpu in host host,-arch-capabilities; do
        timeout -k 1 "$accel_probe_seconds" qemu-system-x86_64 -nodefaults -no-reboot -display none -accel kvm \
            -cpu "$cpu" -m 512M -smp 2 -kernel "$1" -initrd "$2" -append "console=ttyS0 quiet panic=-1 okv.probe" \
            -serial "file:$log" </dev/null >/dev/null 2>&1 || true
        if grep -q OKV-GUEST-BOOTED "$log"; then
            found=$cpu
            break
        fi
    done
    rm -f "$log"
    echo "$found"
}
