#!/usr/bin/env bash
# Characterizes emulated drives in real time over NBD and prints how close the profile comes to the truth.
# Needs an idle machine; takes six minutes for each drive.
#
# scripts/realtime-characterize.sh [PROFILE…]     [default: atlas10k]
# HEADTIME names the program [default: target/release/headtime].
#
# The drive is a separate process, so that the path has sockets, wake-ups and interrupts as that to a disk has. The
# lateness of the emulation is printed too, because it looks like noise of the drive.
set -euo pipefail
program=${HEADTIME:-target/release/headtime}
work=$(mktemp -d)
trap 'kill "${server:-}" 2>/dev/null || true; rm -rf "$work"' EXIT

# All threads of the emulation get real-time priority: otherwise a busy machine makes the drive slower than its model.
priority=
if chrt --fifo 1 true 2>/dev/null; then priority="chrt --fifo 1"; fi

for profile in "${@:-atlas10k}"; do
    $priority "$program" emulate "$profile" --seed 3 --backing "$work/disk.img" --listen "unix:$work/socket" --json > "$work/emulate.json" &
    server=$!
    for _ in $(seq 100); do [ -S "$work/socket" ] && break; sleep 0.1; done
    "$program" characterize "nbd+unix:///?socket=$work/socket" -o "$work/found.toml" --force --json > "$work/found.json" || true
    kill "$server"
    wait "$server" || true
    server=
    "$program" characterize "simulated:$profile?seed=3" -o "$work/virtual.toml" --force --json > "$work/virtual.json" 2>/dev/null || true
    echo "== $profile, instance 3"
    python3 - "$work" <<'PYTHON'
import json, sys
work = sys.argv[1]
def answer(name):
    return json.load(open(f"{work}/{name}.json"))
def borders(profile):
    rows = []
    for zone in profile["zone"]:
        if not rows or rows[-1] != zone["sectors_per_track"]:
            rows.append(zone["sectors_per_track"])
    return rows
for name, what in (("found", "real time, over NBD"), ("virtual", "the same unit in virtual time")):
    found = answer(name)
    print(f"{what}: {found['verdict']}")
    check, profile = found["check"], found["profile"]
    if check:
        print(f"  within 50 us {check['within_50_us']:.3f}, 150 us {check['within_150_us']:.3f}, a turn off {check['turn_missed']:.3f}, median {check['median_error_us']:.1f} us")
    if profile:
        print(f"  period {profile['rotation']['period_us']:.4f} us, {profile['geometry']['heads']} heads, {profile['geometry']['layout']}, zones {borders(profile)}")
    cost = found["cost"]
    print(f"  {cost['drive_seconds']:.0f} s drive time, {cost['wall_seconds']:.0f} s wall, {cost['reads']} reads, longest gap {cost['longest_gap_us']:.0f} us")
text = open(f"{work}/emulate.json").read()
late = json.loads(text[text.rindex('{\n  "bytes_late"'):])
print("the emulation was late by (us):", late["lateness_us"], "bytes late:", late["bytes_late"])
PYTHON
done
