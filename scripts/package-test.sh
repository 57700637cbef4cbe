#!/bin/bash
# Installs a Debian package of Headtime in a clean Debian whose systemd runs in namespaces of its own, starts the units on
# an emulated drive, writes and reads over NBD, removes and purges the package. Needs root and mmdebstrap.
#
#   scripts/package-test.sh PACKAGE.deb
set -euo pipefail

package=$(realpath "$1")
suite=$(. /etc/os-release; echo "$VERSION_CODENAME")
folder=$(mktemp -d /var/tmp/headtime-package.XXXXXX)
root=$folder/root
init=

step() { printf '\n== %s\n' "$*"; }
fail() { printf 'package-test: %s\n' "$*" >&2; exit 1; }
inside() { nsenter --target "$init" --all --root --wdns=/ env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 "$@"; }
finish() {
    [ -z "$init" ] || kill -KILL "$init" 2>/dev/null || true
    wait
    rm -rf --one-file-system "$folder"
}
boot() { # systemd as the first process of the folder
    unshare --pid --mount --cgroup --uts --ipc --fork --kill-child --propagation private bash -ec '
        mount --bind "$0" "$0"
        mount -t proc proc "$0/proc"
        mount -t sysfs sysfs "$0/sys"
        mount -t tmpfs tmpfs "$0/run"
        mount --rbind /dev "$0/dev"
        mount -t tmpfs tmpfs "$0/sys/fs/cgroup"
        mount -t cgroup2 cgroup2 "$0/sys/fs/cgroup"
        exec chroot "$0" env -i container=chroot PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --show-status=no systemd.unit=basic.target' \
        "$root" > "$folder/boot" 2>&1 &
    for _ in $(seq 300); do
        init=$(pgrep -P $! || true)
        [ -z "$init" ] || ! inside systemctl is-system-running >/dev/null 2>&1 || return 0
        sleep 0.2
    done
    cat "$folder/boot"
    fail "systemd does not start in namespaces"
}
is() { # the property of a unit
    local value
    value=$(inside systemctl show --value -p "$2" "$1")
    [[ $value == $3 ]] || { inside journalctl --no-pager -n 20 -u "$1"; fail "$1: $2 is $value, not $3"; }
    echo "$1: $2=$value"
}
trap finish EXIT

[ "$(id -u)" = 0 ] || fail "run it as root"

step "a clean Debian $suite"
mmdebstrap --quiet --variant=minbase --include=systemd,systemd-sysv,udev,man-db,libnbd-bin,python3-libnbd,bash-completion "$suite" "$root"
cp -L /etc/resolv.conf "$root/etc/resolv.conf" 2>/dev/null || true
boot

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
inside systemd-analyze verify /lib/systemd/system/headtime@.service /lib/systemd/system/headtime@.socket 2>&1 | tee "$folder/verify"
[ ! -s "$folder/verify" ] || fail "systemd-analyze verify found something"
inside systemd-analyze security --offline=true --threshold=50 headtime@.service | tail -n 1
if inside udevadm verify --help >/dev/null 2>&1; then inside udevadm verify /usr/lib/udev/rules.d/90-headtime.rules; fi
inside headtime check-config /etc/headtime/nas.toml

step "the service"
inside systemctl start headtime@nas
is headtime@nas ActiveState active
is headtime@nas StatusText "1 export, 0 clients,*"
is headtime@nas WatchdogUSec 30s
cat > "$root/tmp/client.py" <<'PYTHON'
import nbd
h = nbd.NBD()
h.connect_uri("nbd+unix:///db?socket=/run/headtime/nas.sock")
h.pwrite(b"headtime" * 512, 8192)
h.flush()
assert h.pread(4096, 8192) == b"headtime" * 512
print("wrote and read 4096 bytes of", h.get_size())
h.shutdown()
PYTHON
inside python3 /tmp/client.py
inside headtime status | head -n 12
inside headtime volume set db reserve=40%

step "a server that hangs is restarted by the watchdog"
mkdir -p "$root/etc/systemd/system/headtime@nas.service.d"
printf '[Service]\nWatchdogSec=2\nRestartSec=0\n' > "$root/etc/systemd/system/headtime@nas.service.d/watchdog.conf"
inside systemctl daemon-reload
inside systemctl restart headtime@nas
inside systemctl kill --signal=STOP headtime@nas
for _ in $(seq 100); do
    [ "$(inside systemctl show --value -p NRestarts headtime@nas)" = 0 ] || break
    sleep 0.2
done
is headtime@nas NRestarts 1
inside systemctl start headtime@nas # waits until it is ready
inside python3 /tmp/client.py

step "the socket starts the service"
inside systemctl stop headtime@nas
is headtime@nas Result success
inside systemctl start headtime@nas.socket
is headtime@nas ActiveState inactive
inside python3 /tmp/client.py
is headtime@nas ActiveState active
inside headtime volume list | grep -q '40 %' || fail "the reservation is gone"

step "a wrong configuration is not restarted"
inside systemctl stop headtime@nas.socket headtime@nas
sed -i 's/^listen/listn/' "$root/etc/headtime/nas.toml"
! inside systemctl start headtime@nas 2>/dev/null || fail "it starts"
is headtime@nas ExecMainStatus 2
is headtime@nas NRestarts 0
inside journalctl --no-pager -o cat -n 20 -u headtime@nas | grep 'unknown key `listn`' || fail "the log does not name the key"
sed -i 's/^listn/listen/' "$root/etc/headtime/nas.toml"
inside systemctl start headtime@nas

step "removal keeps configuration and state, as Debian's policy requires"
inside apt-get remove -y -qq headtime
is headtime@nas ActiveState inactive
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

printf '\npackage-test: passed\n'
