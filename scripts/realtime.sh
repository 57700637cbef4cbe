# shellcheck shell=bash
# Sourced by the measurements in real time that put fio in front of a server in front of an emulated drive: an end that leaves nothing behind, and the drive itself.

set -euo pipefail
program=${HEADTIME:-target/release/headtime}
work=$(mktemp -d)
# Processes that are ended with the script, in this order.
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
await() { for _ in $(seq 300); do [ -S "$1" ] && return; sleep 0.1; done; echo "nobody listens at $1"; exit 1; }

# Emulates unit 3 of a profile at $work/drive. Before ordinary threads: otherwise a busy machine makes it a slower drive than it is.
start_drive() {
    local before_others=
    if chrt --fifo 1 true 2>/dev/null; then before_others="chrt --fifo 1"; fi
    $before_others "$program" emulate "$1" --seed 3 --backing "$work/disk.img" --listen "unix:$work/drive" --json > "$work/emulate.json" &
    drive=$!
    await "$work/drive"
}

# Ends server and drive, and says how late the emulation was.
end_drive() {
    kill "$server"; wait "$server" || true; server=
    kill "$drive"; wait "$drive" || true; drive=
    python3 - "$work/emulate.json" <<'PYTHON'
import json, sys
text = open(sys.argv[1]).read()
print("the emulation was late by (us):", json.loads(text[text.rindex('{\n  "bytes_late"'):])["lateness_us"])
PYTHON
}
