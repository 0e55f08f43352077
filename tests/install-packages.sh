#!/bin/sh
# Debian's packages that the tests use. As root they are installed; otherwise the missing ones are named.
# None may leave a daemon running: policy-rc.d keeps package scripts from starting services.
set -eu
needed="chromium gettext haproxy mariadb-server munge openssl postgresql prometheus prometheus-alertmanager redis-tools slurm-wlm slurmdbd victoria-metrics wget"
missing=""
for package in $needed; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
done
[ -n "$missing" ] || exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "fettle: the tests need these Debian packages:$missing. Install them: sudo apt-get install$missing" >&2
    exit 1
fi
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod +x "$policy"
    trap 'rm -f "$policy"' EXIT
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
# shellcheck disable=SC2086 # a list of words
apt-get install -y -qq --no-install-recommends $missing >/dev/null
# The tests start servers of their own; nobody asked for one that starts with the machine. The helper works for package scripts alone.
for service in haproxy mariadb-server/mariadb munge postgresql prometheus prometheus-alertmanager slurm-wlm/slurmctld slurm-wlm/slurmd slurmdbd victoria-metrics; do
    case "$missing " in *" ${service%/*} "*) DPKG_MAINTSCRIPT_PACKAGE=fettle deb-systemd-helper disable "${service#*/}.service" >/dev/null 2>&1 || true ;; esac
done
