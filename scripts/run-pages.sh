#!/bin/bash
# Runs the shell blocks of documentation pages as they are printed, in order, and fails with the first that fails.
#
#   scripts/run-pages.sh FOLDER_WITH_THE_PROGRAM PAGE.md...
#
# A block is run if it is marked as `sh` and the line before it is not `<!-- not run: REASON -->`. It needs root. The
# pages' paths (/etc, /run, /var/lib, /srv, /dev) are private: overlays in a mount namespace of their own. So is the
# network. The disk is a sparse file behind a loop device, as large as the profile `nearline-20tb`. The commands of
# systemd's units are started by the functions below; where the kernel has no NBD, nbdfuse and a loop device connect
# instead.
set -Eeuo pipefail

if [ -z "${HEADTIME_PRIVATE:-}" ]; then
    [ "$(id -u)" = 0 ] || { echo "skipped: the pages' commands need root"; exit 0; }
    for tool in unshare ip losetup sfdisk nbdfuse mkfs.ext4 qemu-img openssl curl nbdinfo; do
        command -v $tool >/dev/null || { echo "skipped: $tool is not installed (scripts/setup.sh test installs it)"; exit 0; }
    done
    HEADTIME_PRIVATE=1 exec unshare --mount --net --propagation private "$0" "$@"
fi

sources=$(cd "$(dirname "$0")/.." && pwd)
PATH=$(realpath "$1"):$PATH
shift
mapfile -t pages < <(realpath "$@")
DISK=/dev/disk/by-id/ata-ST8000NM000A_WSD0ABCD
work=/run/pages loops=() servers=()

finish() {
    set +e; trap - ERR
    cd /
    umount /srv/db /srv/video 2>/dev/null
    kill "${servers[@]}" 2>/dev/null
    wait
    for fuse in "$work"/fuse/*/; do umount --lazy "$fuse"; done 2>/dev/null
    for device in "${loops[@]}"; do losetup -d "$device"; done 2>/dev/null
}
trap finish EXIT
trap 'echo "run-pages: this failed: $BASH_COMMAND" >&2' ERR

ip link set lo up
mount -t tmpfs tmpfs /run
mkdir -p $work/fuse $work/page /run/headtime # as RuntimeDirectory=
for folder in /etc /dev /srv /var/lib; do
    name=${folder//\//-}
    mkdir -p "$work/upper$name" "$work/work$name"
    mount -t overlay overlay -o "lowerdir=$folder,upperdir=$work/upper$name,workdir=$work/work$name" "$folder" || {
        echo "skipped: $folder cannot be made private"
        exit 0
    }
done
attach() { # a file, with options of losetup, as a loop device
    local device
    device=$(losetup --find --show "$@")
    loops+=("$device")
    [ -e "$device" ] || mknod "$device" b 7 "${device#/dev/loop}" # the private /dev may not show it
    attached=$device
}
mkdir -p "$(dirname $DISK)" /etc/headtime /var/lib/headtime
cp "$sources/crates/mechanics/profiles/nearline-20tb.toml" /etc/headtime/nas.profile
size=$(headtime profiles --json | python3 -c 'import json, sys
print(next(p["capacity_bytes"] for p in json.load(sys.stdin) if p["name"] == "nearline-20tb"))')
truncate -s "$size" $work/disk.img
attach $work/disk.img
ln -sf "$attached" $DISK
# The disk of existing-data.md: two partitions, one with a mounted file system. A loop device stands for the partition,
# since not every kernel reads a GPT.
truncate -s 1G $work/old.img
printf 'label: gpt\nsize=256MiB, name=video\nsize=256MiB\n' | sfdisk --quiet $work/old.img
attach $work/old.img
ln -sf "$attached" /dev/disk/by-id/ata-X
part=/dev/disk/by-partlabel/video
mkdir -p ${part%/*} /srv/video
attach $work/old.img --offset 1MiB --sizelimit 256MiB
ln -sf "$attached" $part
mkfs.ext4 -q $part
mount $part /srv/video
echo kept > /srv/video/file

# What systemd does with the units of the pages.
systemctl() {
    local unit=${*: -1}
    case "$* " in
        "enable --now headtime@"* | "start headtime@"*)
            local name=${unit#headtime@} command pid
            eval "pid=\${server_$name:-}"
            if [ -n "$pid" ] && kill -0 "$pid" 2>/dev/null; then return; fi
            command=$(sed -n 's/^ExecStart=\/usr\/bin\///p' "$sources/contrib/systemd/headtime@.service")
            rm -f "$work/$name.out" # that of an earlier start would count as this one's
            ${command//%i/$name} > "$work/$name.out" 2> "$work/$name.err" &
            servers+=($!)
            eval "server_$name=$!"
            for _ in $(seq 600); do
                [ -s "$work/$name.out" ] && return
                kill -0 $! || { cat "$work/$name.err" >&2; return 1; }
                sleep 0.1
            done
            return 1 ;;
        "disable --now headtime@"* | "stop headtime@"*)
            local name=${unit#headtime@} pid
            eval "pid=\$server_$name"
            kill "$pid"
            wait "$pid" ;;
        "reload headtime@"*) headtime reload --config "/etc/headtime/${unit#headtime@}.toml" ;;
        "enable --now nbd@"*) nbd-client "${unit#nbd@}" ;;
        "disable --now nbd@"*) nbd-client -d "/dev/${unit#nbd@}" ;;
        "daemon-reload ") ;;
        *) echo "systemctl $*: the test does not know this command" >&2; return 1 ;;
    esac
}
if ! { modprobe nbd && [ -e /dev/nbd0 ]; } 2>/dev/null; then
    modprobe() { [ "$*" = nbd ]; }
    nbd-client() {
        local device socket export
        case "$1" in
            -d) device=${2#/dev/}; losetup -d "$(readlink "/dev/$device")"; umount --lazy "$work/fuse/$device"; return ;;
            -unix) socket=$2 export=$4 device=${5#/dev/} ;;
            *) device=$1; read -r _ socket export _ < <(grep "^$device " /etc/nbdtab) ;;
        esac
        mkdir -p "$work/fuse/$device"
        nbdfuse "$work/fuse/$device" "nbd+unix:///$export?socket=$socket" &
        servers+=($!)
        for _ in $(seq 600); do [ ! -e "$work/fuse/$device/nbd" ] || break; sleep 0.1; done
        attach "$work/fuse/$device/nbd"
        ln -sf "$attached" "/dev/$device"
    }
fi

refused() { # for `! command`, which never fails under errexit
    if "$@"; then echo "$* should have failed" >&2; return 1; fi
}

cd $work/page
for page in "${pages[@]}"; do
    blocks=$(awk -v page="$(basename "$page")" '
        /^ *```sh$/ && !skip { within = 1; count++; print "echo \"== " page ", block " count "\""; next }
        /^ *```/ { within = 0 }
        within { sub(/^   /, ""); sub(/^! /, "refused "); print }
        { skip = /<!-- not run: .* -->/ }' "$page")
    [ -n "$blocks" ] || { echo "$page has no block to run" >&2; exit 1; }
    eval "$blocks"
done
grep -q kept /srv/video/file # by whichever way it is mounted now
echo "run-pages: $# pages ran"
