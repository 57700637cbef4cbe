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
