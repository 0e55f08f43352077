# shellcheck shell=sh
# The settings of Fettle's Slurm scripts, read and not run: fettle.conf beside the scripts, else /etc/fettle/slurm.conf.
# `here` is the folder of the scripts. What stands there is in docs/how-to/slurm.md.
server='' token_file=/etc/fettle/slurm.token cluster="${SLURM_CLUSTER_NAME:-}" ca_file='' timeout_s=5 drain=no proc=/proc
settings=/etc/fettle/slurm.conf
[ ! -r "$here/fettle.conf" ] || settings="$here/fettle.conf"
if [ -r "$settings" ]; then
    while IFS='=' read -r name value || [ -n "$name" ]; do
        case "$name" in
            server) server="${value%/}" ;;
            token_file) token_file="$value" ;;
            cluster) cluster="$value" ;;
            ca_file) ca_file="$value" ;;
            timeout_s) timeout_s="$value" ;;
            drain) drain="$value" ;;
            proc) proc="$value" ;;
            slurm_conf) SLURM_CONF="$value" && export SLURM_CONF ;; # slurmd gives its own to no health check
            slurm_bin) PATH="$value:$PATH" ;;
        esac
    done <"$settings"
fi

say() { # into the system's log, or nowhere
    logger -t fettle-slurm -- "$1" 2>/dev/null || :
}

ask() { # curl with the token, which stands in no argument and in no variable that a child would get
    token=''
    IFS= read -r token <"$token_file" || [ -n "$token" ] || return 1
    printf 'header = "Authorization: Bearer %s"\n' "$token" |
        curl --config - --silent --show-error --fail --connect-timeout 2 --max-time "$timeout_s" ${ca_file:+--cacert "$ca_file"} "$@"
}
