#!/usr/bin/env bash
# Compares Headtime in real time with the kernel's schedulers on one emulated drive: a recorder (writes of 256 KiB, 15
# a second), a database (8 KiB at random, depth 8, 70 % reads) and a backup (reads of 1 MiB, depth 4) run side by side.
# Under the kernel's schedulers the three use parts of a loop device on the bare drive; under Headtime each has a loop
# device on its own volume, the recorder's with a deadline of 250 ms. Both go through the same bridge (nbd-fuse.py).
# Needs root, an idle machine, fio and python3-libnbd; takes SECONDS and a few more for each scheduler.
#
# scripts/realtime-kernel.sh [PROFILE] [SECONDS] [SCHEDULER…]   [default: nearline-20tb 30 mq-deadline bfq headtime]
# HEADTIME names the program [default: target/release/headtime].
source "$(dirname "$0")/realtime.sh"
profile=${1:-nearline-20tb} seconds=${2:-30}
schedulers=("${@:3}")
[ "${#schedulers[@]}" -gt 0 ] || schedulers=(mq-deadline bfq headtime)
needs_loops

# Loads recorder, database and backup, each given as DEVICE:FIRST-BYTE:BYTES, and prints a line of results.
measure() {
    job() { local place; IFS=: read -r -a place <<< "$2"; echo --name="$1" --filename="${place[0]}" --offset="${place[1]}" --size="${place[2]}"; }
    fio --output-format=json+ --output="$work/fio.json" --ioengine=libaio --direct=1 --time_based=1 --runtime="$seconds" --randseed=1 --randrepeat=1 --norandommap=1 \
        $(job recorder "$2") --rw=write --bs=256k --rate_iops=15 --iodepth=8 \
        $(job database "$3") --rw=randrw --rwmixread=70 --bs=8k --iodepth=8 \
        $(job backup "$4") --rw=read --bs=1m --iodepth=4
    python3 - "$work/fio.json" "$1" <<'PYTHON'
import json, sys
text = open(sys.argv[1]).read()
jobs = {job["jobname"]: job for job in json.loads(text[text.index("{"):])["jobs"]}
recorder, database, backup = jobs["recorder"]["write"], jobs["database"]["read"], jobs["backup"]["read"]
late = sum(count for ns, count in recorder["clat_ns"]["bins"].items() if int(ns) > 250e6)
p99 = database["clat_ns"]["percentile"]["99.000000"] / 1e6
print(f"{sys.argv[2]:12} {backup['bw_bytes'] / 1e6:6.0f} MB/s {database['iops']:8.1f}/s  p99 {p99:4.0f} ms"
      f" {late:6} of {recorder['total_ios']}  max {recorder['clat_ns']['max'] / 1e6:.0f} ms", flush=True)
PYTHON
}

uptime
echo "scheduler    backup      database reads          recorder later than 250 ms"
for scheduler in "${schedulers[@]}"; do
    rm -rf "$work/disk.img"*
    start_drive "$profile"
    uri="nbd+unix:///?socket=$work/drive"
    bytes=$(nbdinfo --size "$uri")
    third=$((bytes / 3 / 1048576 * 1048576))
    if [ "$scheduler" = headtime ]; then
        size=$((third / 1048576 - 2))MiB
        "$program" serve --drive "$uri" --profile "$profile" --volume "recorder=$size,deadline=250ms" --volume "database=$size" --volume "backup=$size" \
            --listen "unix:$work/nbd" --control "$work/control" --state "$work/state" > /dev/null &
        server=$!
        await "$work/nbd"
        export_of() { echo "$1=nbd+unix:///$1?socket=$work/nbd"; }
        mount_exports "$(export_of recorder)" "$(export_of database)" "$(export_of backup)"
        for loop in "${loops[@]}"; do echo none > "/sys/block/${loop#/dev/}/queue/scheduler"; done
        measure "$scheduler" "${loops[0]}:0:$((third - 4194304))" "${loops[1]}:0:$((third - 4194304))" "${loops[2]}:0:$((third - 4194304))"
    else
        mount_exports "disk=$uri"
        echo "$scheduler" > "/sys/block/${loops[0]#/dev/}/queue/scheduler"
        measure "$scheduler" "${loops[0]}:0:$third" "${loops[0]}:$third:$third" "${loops[0]}:$((2 * third)):$third"
    fi
    unmount
    wait "$load" || true; load=
    if [ -n "$server" ]; then end_drive; else kill "$drive"; wait "$drive" || true; drive=; fi
done
