# shellcheck shell=bash
# Sourced by the real-time measurements (fio, a server, an emulated drive): starts the drive, and cleans up on exit.

set -euo pipefail
program=${HEADTIME:-target/release/headtime}
work=$(mktemp -d)
# Processes that the exit handler stops, in this order.
load= server= drive=
clean() {
    for process in $load $server $drive; do kill "$process" 2>/dev/null || true; wait "$process" 2>/dev/null || true; done
    rm -rf "$work"
}
trap clean EXIT
if ! fio --enghelp 2>/dev/null | grep -qw nbd; then
    echo "skipped: fio with its nbd engine is not installed (scripts/setup.sh demo installs it)"
    exit 0
fi

# Waits for a socket.
await() { for _ in $(seq 300); do [ -S "$1" ] && return; sleep 0.1; done; echo "no socket at $1 after 30 s"; exit 1; }

# Emulates instance 3 of a profile at $work/drive, with real-time priority where allowed: otherwise a busy machine
# makes the drive slower than its model.
start_drive() {
    local priority=
    if chrt --fifo 1 true 2>/dev/null; then priority="chrt --fifo 1"; fi
    $priority "$program" emulate "$1" --seed 3 --backing "$work/disk.img" --listen "unix:$work/drive" --json > "$work/emulate.json" &
    drive=$!
    await "$work/drive"
}

# Loop devices on NBD exports, for measurements that name them.
loops=()
needs_loops() {
    if [ "$(id -u)" != 0 ] || [ ! -e /dev/fuse ] || ! /usr/bin/python3 -c 'import nbd' 2>/dev/null; then
        echo "skipped: it needs root, /dev/fuse and python3-libnbd (scripts/setup.sh test installs it)"
        exit 0
    fi
    trap 'unmount; clean' EXIT
}
unmount() {
    for loop in "${loops[@]}"; do losetup -d "$loop" 2>/dev/null || true; done
    loops=()
    umount "$work/mount" 2>/dev/null || true
}

# Mounts exports (NAME=URI) and makes a loop device of each, in `loops`.
mount_exports() {
    mkdir -p "$work/mount"
    "$(dirname "$0")/nbd-fuse.py" "$work/mount" "$@" & load=$!
    for _ in $(seq 100); do mountpoint -q "$work/mount" && break; sleep 0.1; done
    for export in "$@"; do
        loops+=("$(losetup --find --show --direct-io=on "$work/mount/${export%%=*}")")
        # Linux 6.18 leaves fewer and fewer tags to a loop device that has had other schedulers; a change restores them.
        for tags in 64 128; do echo $tags > "/sys/block/${loops[-1]#/dev/}/queue/nr_requests"; done
    done
}

# Stops server and drive, and prints how late the emulation was.
end_drive() {
    kill "$server"; wait "$server" || true; server=
    kill "$drive"; wait "$drive" || true; drive=
    python3 - "$work/emulate.json" <<'PYTHON'
import json, sys
text = open(sys.argv[1]).read()
print("the emulation was late by (us):", json.loads(text[text.rindex('{\n  "bytes_late"'):])["lateness_us"])
PYTHON
}
