#!/bin/sh
# Installs Fettle's agent on this node:
#   curl -fsS @BASE@/agent/install.sh | FETTLE_ENROLMENT_CODE=... sh
# It needs a CPython 3.10 to 3.14 and nothing else. Environment:
#   FETTLE_ENROLMENT_CODE  the single-use code of `manage.py enrolment_code`
#   FETTLE_NODE            the node's name (default: the host's name)
#   FETTLE_ROOT            install below this folder instead of / (no service is started then)
#   FETTLE_PYTHON          the Python to use
#   SSL_CERT_FILE          certificates to trust, for a server with a certificate of its own authority
set -eu

main() {
    python=""
    for one in ${FETTLE_PYTHON:-python3.14 python3.13 python3.12 python3.11 python3.10 python3}; do
        if command -v "$one" >/dev/null 2>&1 &&
            "$one" -c 'import sys; sys.exit(not ((3, 10) <= sys.version_info < (3, 15) and sys.implementation.name == "cpython"))' 2>/dev/null; then
            python=$(command -v "$one")
            break
        fi
    done
    if [ -z "$python" ]; then
        echo "fettle: no CPython 3.10 to 3.14 was found here; install one (Debian: apt-get install python3), or name it in FETTLE_PYTHON." >&2
        exit 1
    fi
    FETTLE_BASE=@BASE@ FETTLE_SHA256=@SHA256@ exec "$python" -I - <<'PROGRAM'
@PROGRAM@
PROGRAM
}

# the last line: a script that was cut off on its way does nothing
main
