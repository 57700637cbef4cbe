#!/bin/bash
# Installs a Debian package of Headtime in a clean Debian, runs the server from the unit's command on an emulated drive,
# writes and reads over NBD, removes and purges the package. Needs root and mmdebstrap.
#
#   scripts/package-test.sh PACKAGE.deb
set -euo pipefail

package=$(realpath "$1")
suite=$(. /etc/os-release; echo "$VERSION_CODENAME")
folder=$(mktemp -d /var/tmp/headtime-package.XXXXXX)
root=$folder/root
server=

step() { printf '\n== %s\n' "$*"; }
fail() { printf 'package-test: %s\n' "$*" >&2; exit 1; }
inside() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 "$@"; }
finish() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    for mounted in proc sys dev; do umount --lazy "$root/$mounted" 2>/dev/null || true; done
    rm -rf --one-file-system "$folder"
}
trap finish EXIT

[ "$(id -u)" = 0 ] || fail "run it as root"

step "a clean Debian $suite"
mmdebstrap --quiet --variant=minbase --include=systemd,udev,man-db,libnbd-bin,python3-libnbd,bash-completion "$suite" "$root"
for mounted in proc sys dev; do mount --rbind "/$mounted" "$root/$mounted"; mount --make-rslave "$root/$mounted"; done
cp -L /etc/resolv.conf "$root/etc/resolv.conf" 2>/dev/null || true

step "installation"
cp "$package" "$root/tmp/headtime.deb"
inside apt-get update -qq
inside apt-get install -y -qq --no-install-recommends /tmp/headtime.deb
inside dpkg -L headtime | sort
inside headtime --version
inside headtime --version | grep -qE '^headtime [0-9.]+ \([0-9a-f]{12}\)$' || fail "the version has no commit"
[ -f "$root/usr/share/man/man5/headtime.toml.5.gz" ] || fail "headtime.toml(5) is missing"
inside man --warnings 5 headtime.toml >/dev/null
inside bash -c '. /usr/share/bash-completion/bash_completion && . /usr/share/bash-completion/completions/headtime && complete -p headtime'

step "units"
for name in nas; do
    cat > "$root/etc/headtime/$name.toml" <<TOML
drive = "emulated:atlas10k?backing=/var/lib/headtime/$name.img"
listen = ["unix:/run/headtime/$name.sock"]
[[volume]]
name = "db"
size = "64MiB"
TOML
done
inside systemd-analyze verify headtime@nas.service headtime@nas.socket 2>&1 | tee "$folder/verify"
[ ! -s "$folder/verify" ] || fail "systemd-analyze verify found something"
inside systemd-analyze security --offline=true --threshold=50 headtime@.service | tail -n 1
if inside udevadm verify --help >/dev/null 2>&1; then inside udevadm verify /usr/lib/udev/rules.d/90-headtime.rules; fi
inside headtime check-config /etc/headtime/nas.toml

step "the server, as the unit starts it"
unit=$root/usr/lib/systemd/system/headtime@.service
mkdir -p "$root/run/headtime" "$root/var/lib/headtime" # RuntimeDirectory= and StateDirectory=
command=$(sed -n 's/^ExecStart=//p' "$unit" | sed 's/%i/nas/g')
echo "$command"
inside $command > "$folder/out" 2> "$folder/err" &
server=$!
for _ in $(seq 600); do grep -q '^serving db' "$folder/out" && break; kill -0 "$server" || { cat "$folder/err"; fail "it ended"; }; sleep 0.1; done
cat "$folder/out"
inside /usr/bin/python3 - <<'PYTHON'
import nbd
h = nbd.NBD()
h.connect_uri("nbd+unix:///db?socket=/run/headtime/nas.sock")
h.pwrite(b"headtime" * 512, 8192)
h.flush()
assert h.pread(4096, 8192) == b"headtime" * 512
print("wrote and read 4096 bytes of", h.get_size())
h.shutdown()
PYTHON
inside headtime status --config /etc/headtime/nas.toml | head -n 12
kill -TERM "$server"
wait "$server" || fail "the server ended with $?"
server=
tail -n 2 "$folder/out"

step "removal keeps configuration and state, as Debian's policy requires"
inside apt-get remove -y -qq headtime
[ ! -e "$root/usr/bin/headtime" ] || fail "the program is still there"
for kept in etc/headtime/nas.toml etc/headtime/conf.d/host.toml var/lib/headtime/nas.img; do
    ls -d "$root/$kept" | sed "s|^$root||"
done

step "a purge removes the package's configuration and state, and keeps what the administrator wrote"
mkdir -p "$root/var/lib/headtime/sdz.scans"
inside apt-get purge -y -qq headtime
for gone in etc/headtime/conf.d var/lib/headtime/sdz.scans; do
    [ ! -e "$root/$gone" ] || fail "/$gone is still there"
done
ls "$root/etc/headtime/nas.toml" "$root/var/lib/headtime/nas.img" | sed "s|^$root||"
inside dpkg -l headtime 2>&1 | tail -n 1

printf '\npackage-test: passed\n'
