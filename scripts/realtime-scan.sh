#!/usr/bin/env bash
# Measures in real time what a scrub costs clients and how fast it runs: an emulated drive over NBD, served with a
# characterized profile, under fio's transactions, alternately with and without a scrub.
# Needs an idle machine and fio with its nbd engine; takes ten minutes.
#
# scripts/realtime-scan.sh [PROFILE] [PAIRS] [SECONDS] [POLICY]
#     [default: atlas10k 4 25 sptf-sw:within_percent=60]
# HEADTIME names the program [default: target/release/headtime].
#
# The transactions are those of Lumb, Schindler and Ganger (2002), section 4.1: ten tasks, 30 ms think time, two reads
# per write, uniform addresses, sizes exponential around 8 KiB in multiples of 4 KiB. The policy is the paper's for
# scans: the shortest seek among the requests within 60 % of the best, which leaves long rotational gaps.
# The drive is characterized over NBD first. With CHARACTERIZE=virtual it is characterized in virtual time: the same
# simulated drive without the wait and without the transport.
source "$(dirname "$0")/realtime.sh"
profile=${1:-atlas10k} pairs=${2:-4} seconds=${3:-25} policy=${4:-sptf-sw:within_percent=60}
scan() { "$program" scan "$1" v --task scrub --control "$work/control" --json "${@:2}"; }
done_now() { scan status | python3 -c 'import json, sys; scan = json.load(sys.stdin)["scans"][0]; print(json.dumps({"done": scan["bytes_done"], **scan["sources"]}))'; }

start_drive "$profile"
[ "${CHARACTERIZE:-}" = virtual ] && unit="simulated:$profile?seed=3" || unit="nbd+unix:///?socket=$work/drive"
"$program" characterize "$unit" -o "$work/found.toml" --force --json > "$work/found.json" 2>/dev/null || true
size=$(python3 -c 'import tomllib, sys; print(tomllib.load(open(sys.argv[1], "rb"))["capacity_sectors"] // 2048 - 1)' "$work/found.toml")
"$program" serve --drive "nbd+unix:///?socket=$work/drive" --profile "$work/found.toml" --policy "$policy" --volume "v=${size}MiB" \
    --listen "unix:$work/nbd" --control "$work/control" --state "$work/state" --print-uri > "$work/uri" &
server=$!
await "$work/nbd"
for _ in $(seq 100); do [ -s "$work/uri" ] && break; sleep 0.1; done

oltp() {
    fio --name=oltp --ioengine=nbd --uri="$(cat "$work/uri")" --thread=1 --numjobs=10 --group_reporting --rw=randrw --rwmixread=67 \
        --bssplit=4k/39:8k/24:12k/14:16k/9:20k/5:24k/4:32k/5 --thinktime=30ms --time_based=1 --ramp_time=2 --runtime="$seconds" --randseed="$1" \
        --lat_percentiles=1 --clat_percentiles=0 --output-format=json > "$2"
}
scan start > /dev/null
scan pause > /dev/null
for pair in $(seq "$pairs"); do
    oltp "$pair" "$work/without.$pair"
    oltp "$pair" "$work/with.$pair" &
    load=$!
    sleep 2
    scan resume > /dev/null
    done_now > "$work/first.$pair"; first=$(date +%s.%N)
    sleep "$((seconds - 1))"
    done_now > "$work/last.$pair"; last=$(date +%s.%N)
    scan pause > /dev/null
    echo "$first $last" > "$work/time.$pair"
    wait "$load"; load=
done
measured=$("$program" scan status v --control "$work/control" | tail -1)
python3 - "$work" "$profile" "$pairs" "$measured" "$policy" <<'PYTHON'
import json, statistics, sys
work, profile, pairs, measured, policy = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4], sys.argv[5]
def load(name):
    # fio prints a line for each connection before its JSON.
    text = open(f"{work}/{name}").read()
    return json.loads(text[text.index("{"):])
def foreground(name):
    """Mean and 99th percentile of the response in ms, reads and writes together (the percentile of each, weighed by how many there were), and requests a second."""
    job = load(name)["jobs"][0]
    parts = [job[kind] for kind in ("read", "write") if job[kind]["total_ios"]]
    ios = sum(part["total_ios"] for part in parts)
    weigh = lambda figure: sum(figure(part["lat_ns"]) * part["total_ios"] for part in parts) / ios / 1e6
    return weigh(lambda lat: lat["mean"]), weigh(lambda lat: lat["percentile"]["99.000000"]), sum(part["iops"] for part in parts)
found = json.load(open(f"{work}/found.json"))
within = f"{found['check']['within_50_us']:.1%} of reads predicted within 50 us, " if found["check"] else ""
print(f"characterized: {found['verdict']}; {within}{found['cost']['drive_seconds']:.0f} s of drive time")
print(f"transactions on {profile}, unit 3, behind NBD, {policy}; a scrub beside every second run")
print(f"{'pair':>4} {'mean ms without':>16} {'with':>8} {'p99 ms without':>15} {'with':>8} {'req/s without':>14} {'with':>7} {'free MB/s':>10} {'in gaps':>8} {'idle':>6}")
rows = []
for pair in range(1, pairs + 1):
    (mean_a, p99_a, iops_a), (mean_b, p99_b, iops_b) = foreground(f"without.{pair}"), foreground(f"with.{pair}")
    first, last = load(f"first.{pair}"), load(f"last.{pair}")
    begin, end = map(float, open(f"{work}/time.{pair}").read().split())
    part = {key: last[key] - first[key] for key in first}
    read = max(1, part["gaps"] + part["merged"] + part["idle"] + part["share"] + part["before_write"])
    rows.append((mean_a, mean_b, p99_a, p99_b, iops_a, iops_b, part["done"] / (end - begin) / 1e6, (part["gaps"] + part["merged"]) / read, part["idle"] / read))
show = lambda name, row: print(f"{name:>4} {row[0]:16.2f} {row[1]:8.2f} {row[2]:15.1f} {row[3]:8.1f} {row[4]:14.1f} {row[5]:7.1f} {row[6]:10.2f} {row[7]:7.0%} {row[8]:6.0%}")
for number, row in enumerate(rows, 1):
    show(str(number), row)
mean = [statistics.mean(column) for column in zip(*rows)]
show("mean", mean)
longer = lambda with_scan, without: f"{(with_scan / without - 1) * 100:+.2f} %"
print(f"with the scrub: mean response {longer(mean[1], mean[0])}, p99 {longer(mean[3], mean[2])}; the server's own measure: {measured}")
PYTHON
end_drive
