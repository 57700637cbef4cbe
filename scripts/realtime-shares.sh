#!/usr/bin/env bash
# Measures in real time whether volumes get the disk time that they have reserved: an emulated drive over NBD with two
# volumes, under fio with one random and one sequential stream of 4 KiB reads without think time. The two reserve the
# whole drive, from 10 and 90 % to 90 and 10 %, each change made live; then the shares are swapped during a run.
# Needs an idle machine and fio with its nbd engine; takes five minutes.
#
# scripts/realtime-shares.sh [PROFILE] [SECONDS] [POLICY…]     [default: deskstar34gxp@papers 15 utilization headtime]
# HEADTIME names the program [default: target/release/headtime].
#
# A reservation is compared with the stream's fraction of the disk time charged to both; the utilization of the drive
# is printed beside it. The profile's setup is that of the experiments p5.*: one outstanding command and no write cache.
# The streams are those of Kaldewey et al., *Virtualizing disk performance*, figure 4.
source "$(dirname "$0")/realtime.sh"
profile=${1:-deskstar34gxp@papers} seconds=${2:-15}
policies=("${@:3}")
[ "${#policies[@]}" -gt 0 ] || policies=(utilization headtime)

start_drive "$profile"
"$program" serve --drive "nbd+unix:///?socket=$work/drive" --profile "$profile" --policy "${policies[0]}" --volume random=8GiB --volume sequential=8GiB \
    --listen "unix:$work/nbd" --control "$work/control" --state "$work/state" > /dev/null &
server=$!
await "$work/nbd"
await "$work/control"

stream() { echo --name="$1" --uri="nbd+unix:///$1?socket=$work/nbd" --rw="$2" --iodepth="$3" --size=8g; }
# Longer than the whole measurement; the script stops it.
fio --ioengine=nbd --thread=1 --bs=4k --time_based=1 --runtime=86400 --randseed=1 $(stream random randread 8) $(stream sequential read 32) > "$work/fio" 2>&1 &
load=$!
uptime
python3 - "$work/control" "$profile" "$seconds" "${policies[@]}" <<'PYTHON'
import json, socket, sys, time
control, profile, seconds, policies = sys.argv[1], sys.argv[2], float(sys.argv[3]), sys.argv[4:]
WITHIN, SETTLING, BETWEEN, SWAPS = 3.0, 3.0, 10.0, 4
channel = socket.socket(socket.AF_UNIX)
channel.connect(control)
lines = channel.makefile("rw")
def ask(verb, **arguments):
    lines.write(json.dumps({"v": 1, "id": 1, "verb": verb, "arguments": arguments or None}) + "\n")
    lines.flush()
    answer = json.loads(lines.readline())
    if "ok" not in answer:
        sys.exit(f"{verb} {arguments}: {answer['error']['message']}")
    return answer["ok"]
def counts():
    """Seconds since the server started; disk seconds and requests of the random stream, then of the sequential one."""
    now = ask("top")
    of = {export["name"]: export for export in now["exports"]}
    return (now["uptime_seconds"], *((of[name]["disk_seconds"], of[name]["requests"]) for name in ("random", "sequential")))
def reserve(random):
    # Lower the smaller share first: the sum must never exceed the drive.
    shares = sorted({"random": random, "sequential": 100 - random}.items(), key=lambda share: share[1] - reserved.get(share[0], 0))
    for name, percent in shares:
        ask("volume.set", name=name, settings={"reserve": f"{percent}%"})
    reserved.update(shares)
reserved = {}
def share(first, last):
    """Per cent of the disk time of both that the random stream had; how busy the drive was; requests a second of each."""
    (at, (random, random_requests), (sequential, sequential_requests)) = [
        last[0] - first[0], *((b[0] - a[0], b[1] - a[1]) for a, b in zip(first[1:], last[1:]))]
    charged = random + sequential
    return 100 * random / max(charged, 1e-9), 100 * charged / at, random_requests / at, sequential_requests / at
deadline = time.monotonic() + 30
while min(part[1] for part in counts()[1:]) == 0:
    if time.monotonic() > deadline:
        sys.exit("fio has read nothing from one of the volumes for 30 s")
    time.sleep(0.2)
fell_short = 0
for number, policy in enumerate(policies):
    if number > 0:
        ask("tunables.set", set=[{"name": "policy", "value": policy}])
    print(f"\n{policy} on {profile}, unit 3, behind NBD: {seconds:g} s each, {SETTLING:g} s after a live change")
    print(f"{'reserved %':>12} {'achieved %':>12} {'off, points':>12} {'busy %':>8} {'random/s':>9} {'sequential/s':>13}")
    for random in range(10, 100, 20):
        reserve(random)
        time.sleep(SETTLING)
        first = counts()
        time.sleep(seconds)
        achieved, busy, *rates = share(first, counts())
        off = achieved - random
        fell_short += abs(off) > WITHIN
        print(f"{random:>5} / {100 - random:>4} {achieved:5.1f} / {100 - achieved:4.1f} {off:+12.2f} {busy:8.1f} {rates[0]:9.1f} {rates[1]:13.1f}  {'within' if abs(off) <= WITHIN else 'NOT within'} {WITHIN:g}", flush=True)
    for swap in range(SWAPS):
        random = (70, 30)[swap % 2]
        reserve(random)
        samples, changed = [counts()], time.monotonic()
        while time.monotonic() < changed + BETWEEN:
            time.sleep(0.1)
            samples.append(counts())
        def over(begin, length):
            """The share over `length` seconds from the sample `begin` on; `None` where they are not over."""
            ends = (sample for sample in samples[begin:] if sample[0] >= samples[begin][0] + length)
            end = next(ends, None)
            return end and share(samples[begin], end)[0]
        near = lambda part: part is not None and abs(part - random) <= WITHIN
        # The first second with the new share, if the next three have it too.
        good = next((begin for begin in range(len(samples)) if near(over(begin, 1)) and near(over(begin, 4))), None)
        after = None if good is None else samples[good][0] - samples[0][0]
        fell_short += after is None or after > 2
        each = [over(next(i for i, s in enumerate(samples) if s[0] >= samples[0][0] + second), 1) for second in range(5)]
        when = f"not within {BETWEEN:g} s" if after is None else f"after {after:.1f} s"
        print(f"to {random} / {100 - random} in the middle: {when} (target 2 s); random, second by second: {' '.join(f'{part:.1f}' for part in each)}", flush=True)
print(f"\n{fell_short} of {len(policies) * (5 + SWAPS)} fell short")
PYTHON
uptime
kill "$load"; wait "$load" || true; load=
end_drive
