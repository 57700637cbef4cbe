#!/usr/bin/env bash
# Compares Headtime at its defaults in real time with the kernel's schedulers, by applications on two ext4 file systems
# of one emulated drive. Under the kernel's schedulers they are partitions of one loop device on the bare drive; under
# Headtime each is a loop device on its own volume (serve --existing). Both go through the same bridge (nbd-fuse.py).
# Each scheduler starts from the same bytes, and each application from an empty page cache.
# Needs root, an idle machine, 16 GB of memory, fio, python3-libnbd, fdisk, postgresql and rocksdb-tools; takes 3
# minutes for preparation and 4 for each scheduler.
#
# scripts/realtime-applications.sh [PROFILE] [SCHEDULER…]   [default: nearline-20tb none mq-deadline bfq headtime]
# HEADTIME names the program [default: target/release/headtime], PREPARED a folder that keeps the prepared drive.
export TMPDIR=/dev/shm
source "$(dirname "$0")/realtime.sh"
profile=${1:-nearline-20tb}
schedulers=("${@:2}")
[ "${#schedulers[@]}" -gt 0 ] || schedulers=(none mq-deadline bfq headtime)
needs_loops
postgres=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | tail -1)
for tool in sfdisk db_bench pgbench; do
    command -v $tool > /dev/null || { echo "skipped: $tool is missing (apt-get install fdisk postgresql rocksdb-tools)"; exit 0; }
done
prepared=${PREPARED:-$work/prepared}
files=$work/files database=$work/database
mkdir -p "$prepared" "$files" "$database"
chmod 755 "$work"

down() {
    [ ! -f "$database/pg/postmaster.pid" ] || as_postgres pg_ctl -D "$database/pg" -m immediate stop > /dev/null || true
    umount "$files" "$database" 2>/dev/null || true
    unmount
}
trap 'down; clean' EXIT
as_postgres() { (cd / && runuser -u postgres -- "$postgres/$1" "${@:2}"); }
start_postgres() { as_postgres pg_ctl -D "$database/pg" -w -l "$database/pg/log" -o "-k $database -c listen_addresses=" start > /dev/null; }
rocksdb() { db_bench --db="$database/rocks" --num=1000000 --value_size=1000 --compression_type=none --seed=1 "$@" 2> /dev/null; }
forget() { sync; echo 3 > /proc/sys/vm/drop_caches; }
seconds() { local begin; begin=$(date +%s.%N); "$@"; echo "$begin $(date +%s.%N)" | awk '{ printf "%.1f", $2 - $1 }'; }
tps() { awk '/^tps/ { printf "%.1f", $3 }'; }

# Two trees of 8,000 files with a mean of 20 KB, a file of 1 GiB, a database of 750 MB and one of 1 GB.
populate() {
    python3 - "$files" "$database" <<'PYTHON'
import os, random, sys
for seed, root in enumerate(sys.argv[1:]):
    draw = random.Random(seed)
    for folder in range(200):
        path = f"{root}/tree/{folder % 20}/{folder}"
        os.makedirs(path)
        for name in range(40):
            with open(f"{path}/{name}", "wb") as file:
                file.write(draw.randbytes(min(int(draw.lognormvariate(9, 1.3)), 1 << 20)))
PYTHON
    head -c 1G /dev/urandom > "$files/big"
    chown postgres "$database"
    install -d -o postgres "$database/pg"
    as_postgres initdb -D "$database/pg" > /dev/null
    start_postgres
    as_postgres pgbench -h "$database" -q -i -s 50 postgres 2> /dev/null
    as_postgres pg_ctl -D "$database/pg" -w stop > /dev/null
    rocksdb --benchmarks=fillrandom,compact > /dev/null
    fstrim "$files"; fstrim "$database"
}

if [ ! -e "$prepared/disk.img" ]; then
    # The partitions are made through the drive, the rest directly in its backing file, which is fast.
    start_drive "$profile"
    mount_exports "disk=nbd+unix:///?socket=$work/drive"
    third=$(($(blockdev --getsz "${loops[0]}") / 3 / 2048 * 2048))
    printf 'label: gpt\nstart=2048, size=20GiB, name=files\nstart=%s, size=20GiB, name=database\n' "$third" | sfdisk -q "${loops[0]}"
    unmount
    kill "$drive"; wait "$drive" || true; drive=; wait "$load" || true; load=
    mv "$work"/disk.img* "$prepared"
    for place in "$files:2048" "$database:$third"; do
        loop=$(losetup --find --show --offset $((${place#*:} * 512)) --sizelimit $((20 << 30)) "$prepared/disk.img")
        loops+=("$loop")
        mkfs.ext4 -q -E lazy_itable_init=0,nodiscard "$loop"
        mount "$loop" "${place%:*}"
    done
    populate
    down
fi
# 20,000 files in memory, to be unpacked.
python3 - "$work/tree.tar" <<'PYTHON'
import io, random, sys, tarfile
draw = random.Random(9)
with tarfile.open(sys.argv[1], "w") as tar:
    for number in range(20000):
        entry = tarfile.TarInfo(f"unpacked/{number // 100}/{number}")
        entry.size = min(int(draw.lognormvariate(8.5, 1.2)), 1 << 20)
        tar.addfile(entry, io.BytesIO(draw.randbytes(entry.size)))
PYTHON

read_trees() {
    for root in "$files" "$database"; do find "$root/tree" -type f -exec cat {} \; > /dev/null & done
    wait
}
# Prints a line with the results of all applications.
applications() {
    local both reads lone copied transactions unpacked
    forget
    both=$(seconds read_trees)
    forget
    reads=$(rocksdb --benchmarks=readrandom --use_existing_db=1 --threads=8 --duration=30 --ops_between_duration_checks=1 | awk '/^readrandom/ { printf "%.0f", $5 }')
    forget
    start_postgres
    lone=$(as_postgres pgbench -h "$database" -c 8 -T 30 --random-seed=1 postgres 2> /dev/null | tps)
    forget
    as_postgres pgbench -h "$database" -c 4 -T 600 -P 1 --random-seed=2 postgres 2> "$work/progress" > /dev/null & local bench=$!
    sleep 2
    copied=$(seconds bash -c "cp $files/big $files/copy; sync $files/copy")
    kill $bench; wait $bench || true
    transactions=$(sed -n 's/^progress: .* s, \([0-9.]*\) tps.*/\1/p' "$work/progress" | awk 'NR > 2 { sum += $1; n++ } END { printf "%.1f", sum / n }')
    as_postgres pg_ctl -D "$database/pg" -w stop > /dev/null
    forget
    unpacked=$(seconds bash -c "tar -C $files -xf $work/tree.tar; sync -f $files")
    printf '%-12s %8s s %10s/s %8s/s %10s s %8s/s %10s s\n' "$1" "$both" "$reads" "$lone" "$copied" "$transactions" "$unpacked"
}

uptime
echo "scheduler    two finds  readrandom  pgbench   cp of 1 GiB, beside pgbench    tar"
for scheduler in "${schedulers[@]}"; do
    cp --sparse=always "$prepared"/disk.img* "$work"
    start_drive "$profile"
    uri="nbd+unix:///?socket=$work/drive"
    if [ "$scheduler" = headtime ]; then
        "$program" serve --existing --drive "$uri" --profile "$profile" --listen "unix:$work/nbd" --control "$work/control" --state "$work/state" > /dev/null &
        server=$!
        await "$work/nbd"
        mount_exports "files=nbd+unix:///files?socket=$work/nbd" "database=nbd+unix:///database?socket=$work/nbd"
        for loop in "${loops[@]}"; do echo none > "/sys/block/${loop#/dev/}/queue/scheduler"; done
        mount "${loops[0]}" "$files"; mount "${loops[1]}" "$database"
    else
        mount_exports "disk=$uri"
        echo "$scheduler" > "/sys/block/${loops[0]#/dev/}/queue/scheduler"
        # For kernels that do not read GPTs, and machines without udev.
        partx --update "${loops[0]}"
        for part in p1 p2; do
            node=${loops[0]}$part
            [ -e "$node" ] || mknod "$node" b $(tr : ' ' < "/sys/class/block/${node#/dev/}/dev")
        done
        mount "${loops[0]}p1" "$files"; mount "${loops[0]}p2" "$database"
    fi
    applications "$scheduler"
    down
    wait "$load" || true; load=
    if [ -n "$server" ]; then end_drive; else kill "$drive"; wait "$drive" || true; drive=; fi
    rm -rf "$work"/disk.img* "$work/state"
done
