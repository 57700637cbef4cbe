#!/bin/bash
# Checks the alert rules with promtool, then lets a Prometheus scrape a served emulated drive under load: the server must
# be up, every rule must evaluate, and every query of the Grafana dashboard must return values.
#
#   scripts/monitoring-test.sh PROGRAM
set -euo pipefail

program=$(realpath "$1")
cd "$(dirname "$0")/.."
for tool in prometheus promtool nbdsh; do
    command -v $tool >/dev/null || { echo "monitoring-test: $tool is missing (scripts/setup.sh monitoring installs it)" >&2; exit 1; }
done
promtool check rules contrib/prometheus/headtime-alerts.yml
promtool check config contrib/prometheus/prometheus.yml
promtool test rules contrib/prometheus/headtime-alerts-test.yml

folder=$(mktemp -d)
children=()
finish() {
    [ ${#children[@]} = 0 ] || kill "${children[@]}" 2>/dev/null || true
    wait
    rm -rf "$folder"
}
trap finish EXIT
port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

metrics=127.0.0.1:$(port) web=127.0.0.1:$(port)
"$program" serve --drive "emulated:atlas10k?backing=$folder/drive.img" --listen "unix:$folder/nbd.sock" --metrics "$metrics" \
    --volume 'db=64MiB,reserve=40%,limit=80%' --volume 'video=64MiB,deadline=100ms' > "$folder/served" &
children+=($!)
cat > "$folder/prometheus.yml" <<YAML
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [$PWD/contrib/prometheus/headtime-alerts.yml]
scrape_configs:
  - {job_name: headtime, static_configs: [{targets: ["$metrics"]}]}
YAML
prometheus --config.file="$folder/prometheus.yml" --storage.tsdb.path="$folder/series" --web.listen-address="$web" \
    --log.level=error &
children+=($!)
until grep -q '^serving video' "$folder/served"; do sleep 0.1; kill -0 "${children[@]}"; done
"$program" scan start db --task scrub --control "$folder/drive.img.control" >/dev/null
for volume in db video; do
    PATH=/usr/bin:$PATH timeout 8 nbdsh -u "nbd+unix:///$volume?socket=$folder/nbd.sock" -c '
import random
random.seed(1)
while True:
    h.pread(4096, random.randrange(16384) * 4096)
    h.pwrite(bytes(4096), random.randrange(16384) * 4096)' &
done
python3 - "http://$web" contrib/grafana/headtime.json <<'PYTHON'
import json, sys, time, urllib.error, urllib.parse, urllib.request

prometheus, dashboard = sys.argv[1:]

def get(path, **query):
    with urllib.request.urlopen(f"{prometheus}/api/v1/{path}?{urllib.parse.urlencode(query)}") as answer:
        return json.load(answer)["data"]

queries = [
    (panel["title"], target["expr"].replace("$drive", ".*").replace("$__rate_interval", "6s"))
    for panel in json.load(open(dashboard))["panels"] for target in panel["targets"]
]
assert len(queries) > 20
end = time.monotonic() + 40
while True:  # until every query has a value that is a number
    try:
        without = [(title, query) for title, query in queries
                   if not any(row["value"][1] != "NaN" for row in get("query", query=query)["result"])]
    except urllib.error.URLError as error:  # Prometheus starts
        without = [("Prometheus", error)]
    if not without:
        break
    assert time.monotonic() < end, f"no value: {without}"
    time.sleep(0.5)
print(f"{len(queries)} queries of the dashboard return values")
targets = get("targets")["activeTargets"]
assert [target["health"] for target in targets] == ["up"], targets
rules = [rule for group in get("rules")["groups"] for rule in group["rules"]]
assert len(rules) == 10 and all(rule["health"] == "ok" for rule in rules), rules
firing = [rule["name"] for rule in rules if rule["state"] == "firing"]
assert not firing, firing
print(f"{len(rules)} rules evaluate, none fires")
drives = {row["metric"]["drive"] for row in get("query", query='{__name__=~"headtime_.+"}')["result"]}
assert drives == {"drive.img"}, drives
PYTHON
echo "monitoring-test: passed"
