#!/bin/sh
# Makes the secrets that docker-compose.yml mounts, those that are missing, and a certificate that signs itself:
#   sh deploy/server/make-secrets.sh HOST          the name or the address by which people reach the server
# Put the site's own certificate (with its chain) and key in place of secrets/tls.pem and secrets/tls.pem.key.
set -eu
host="${1:?give the name or the address by which people reach the server}"
folder="${2:-$(dirname "$0")/secrets}"
umask 077
mkdir -p "$folder"
# The folder is closed to others on this machine; the files are open, because each container reads its own as another user.
chmod 0700 "$folder"
for name in secret_key database_password broker_password store_password; do
    [ -s "$folder/$name" ] || openssl rand -hex 32 >"$folder/$name"
done
if [ ! -s "$folder/tls.pem" ]; then
    case "$host" in *[!0-9.]*) kind=DNS ;; *) kind=IP ;; esac
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 365 -subj "/CN=$host" \
        -addext "subjectAltName=$kind:$host,DNS:localhost" -keyout "$folder/tls.pem.key" -out "$folder/tls.pem" 2>/dev/null
    echo "$folder/tls.pem signs itself: browsers and agents will not trust it until the site's own is in its place." >&2
fi
chmod 0444 "$folder"/*
