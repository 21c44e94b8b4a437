"""The shell scripts that run on a device: POSIX sh with the usual programs, tar, sha256sum, flock and timeout.

The first argument of each is the device's folder, '' for the default folder. It contains

    blobs/DIGEST      files by SHA-256, read-only
    incoming/TOKEN/   files that are being received
    jobs/TOKEN/       the folder of the running job
    lock              held by the session that uses the device; `owner` describes it
    CACHEDIR.TAG      the mark of the folder, as of caches: a folder with other contents is refused

No script compares times: the clocks of two machines may differ by years. Exit status 3: the disk or a quota is full; 4:
a file's digest differs from the stated digest; 5: a file is missing.
"""

from __future__ import annotations

from modelbuild.store.ownership import MARK, MARK_FILE

_BEGIN = (
    f"tag={MARK_FILE} mark='{MARK.decode()}'"
    + r"""
set -u
umask 077
LC_ALL=C
export LC_ALL
root=$1
shift
case $root in
    '') root=${XDG_CACHE_HOME:-$HOME/.cache}/modelbuild-device ;;
    /*) ;;
    *) root=$HOME/$root ;;
esac
marked() { [ "$(cat "$root/$tag" 2>/dev/null; printf .)" = "$mark." ]; }
empty() { [ ! -e "$root" ] || { names=$(ls -A "$root" 2>/dev/null) && [ -z "$names" ]; }; }
# Twice: meanwhile, another session may mark the folder, and then fill it.
if ! marked && ! empty && ! marked; then
    printf '%s has contents, but no %s of modelbuild; expected a missing or empty folder\n' "$root" "$tag" >&2
    exit 1
fi
"""
)

# Makes the folder.
_MAKE = r"""
mkdir -p "$root" || exit 1
marked || printf '%s' "$mark" >"$root/$tag" || { rm -f "$root/$tag"; exit 3; }
"""

# Every process of a job has the folder in its environment, also processes that left its process group.
_END_JOBS = """
end_jobs() {
    for round in 1 2 3 4 5 6 7 8 9 10; do
        pids=$(grep -lsF "MODELBUILD_DEVICE_JOB=$root:" /proc/[0-9]*/environ | cut -d / -f 3)
        [ -n "$pids" ] || return 0
        kill -KILL $pids 2>/dev/null
        sleep 0.1
    done
}
"""

# Prints `name<TAB>value` lines.
FACTS = (
    _BEGIN
    + r"""
fact() { printf '%s\t%s\n' "$1" "$(printf '%s' "$2" | tr -d '\000' | tr -c '[:print:]' ' ' | cut -c 1-200)"; }
fact arch "$(uname -m)"
fact kernel "$(uname -s) $(uname -r)"
fact os "$(. /etc/os-release 2>/dev/null && printf '%s' "${PRETTY_NAME:-} ${BUILD_ID:-}")"
fact image "$(head -n 1 /etc/nv_tegra_release 2>/dev/null)"
fact driver "$(head -n 1 /proc/driver/nvidia/version 2>/dev/null)"
fact power "$(head -n 1 /var/lib/nvpmodel/status 2>/dev/null)"
fact libc "$(getconf GNU_LIBC_VERSION 2>/dev/null)"
model=$( (cat /proc/device-tree/model || cat /sys/class/dmi/id/product_name) 2>/dev/null | tr -d '\000')
fact model "$model"
fact cpu "$(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo 2>/dev/null | head -n 1)"
fact cpus "$(getconf _NPROCESSORS_CONF 2>/dev/null)"
fact memory "$(sed -n 's/^MemTotal:[[:space:]]*\([0-9]*\).*/\1/p' /proc/meminfo 2>/dev/null)"
if command -v nvidia-smi >/dev/null 2>&1; then
    timeout 20 nvidia-smi --query-gpu=name,compute_cap,driver_version --format=csv,noheader 2>/dev/null |
        head -n 16 | while IFS= read -r line; do fact gpu "$line"; done
fi
for tool in tar sha256sum flock timeout setsid; do
    command -v $tool >/dev/null 2>&1 || fact lacks "$tool"
done
mkdir -p "$root" 2>/dev/null
fact free "$(df -kP "$root" 2>/dev/null | awk 'NR == 2 { print $4 }')"
if [ -e "$root/lock" ] && command -v flock >/dev/null 2>&1 && ! flock -n "$root/lock" true; then
    fact owner "$(head -c 300 "$root/owner" 2>/dev/null)"
fi
"""
)

# Arguments: owner, seconds to wait, seconds of silence, token. Prints `busy OWNER` if it has to wait, then `held` or
# `late`. Holds the lock while a line arrives at least every `silence` seconds; afterwards, no process or file of the
# job is left. The kernel frees the lock if this process is killed, and the next owner cleans up.
HOLD = (
    _BEGIN
    + _MAKE
    + _END_JOBS
    + r"""
owner=$1 wait=$2 silence=$3 token=$4
mkdir -p "$root/blobs" "$root/incoming" "$root/jobs" || exit 1
exec 9>>"$root/lock" || exit 1
if ! flock -n 9; then
    printf 'busy %s\n' "$(head -c 300 "$root/owner" 2>/dev/null | tr -c '[:print:]' ' ')"
    until flock -n 9; do
        wait=$((wait - 1))
        [ "$wait" -ge 0 ] || { echo late; exit 0; }
        sleep 1
    done
fi
printf '%s\n' "$owner" >"$root/owner"
clean() {
    end_jobs
    find "$root/jobs" -type d -exec chmod u+rwx {} + 2>/dev/null
    rm -rf "$root/jobs" "$root/incoming"
    : >"$root/owner"
}
trap 'clean; exit 1' HUP INT TERM
clean
printf '%s\n' "$owner" >"$root/owner"
mkdir -p "$root/incoming" "$root/jobs/$token" || exit 3
echo held
while timeout "$silence" sh -c 'IFS= read -r line' 9>&-; do :; done
clean
"""
)

# Reads digests; prints digests of missing files. A damaged file is removed.
MISSING = (
    _BEGIN
    + r"""
while IFS= read -r digest; do
    file=$root/blobs/$digest
    if [ -f "$file" ] && printf '%s  %s\n' "$digest" "$file" | sha256sum -c >/dev/null 2>&1; then
        touch "$file"
    else
        rm -f "$file"
        printf '%s\n' "$digest"
    fi
done
"""
)

# Reads digests; removes all other files from the store.
KEEP = (
    _BEGIN
    + r"""
keep=" $(tr '\n' ' ')"
for file in "$root/blobs"/*; do
    case $keep in *" ${file##*/} "*) ;; *) rm -f "$file" ;; esac
done
"""
)

# Argument: token. Reads a tar of files called by their digests. Each file appears complete in the store, or not at all.
RECEIVE = (
    _BEGIN
    + r"""
folder=$root/incoming/$1
rm -rf "$folder"
mkdir -p "$folder" && cd "$folder" || exit 3
if log=$(tar -xf - 2>&1); then
    for digest in *; do
        [ -f "$digest" ] || continue
        printf '%s  %s\n' "$digest" "$digest" | sha256sum -c >/dev/null 2>&1 || { status=4; break; }
        chmod 500 "$digest" && touch "$digest" && mv "$digest" "$root/blobs/$digest" || { status=3; break; }
    done
else
    printf '%s\n' "$log" >&2
    case $log in *'No space left'* | *'Wrote only'* | *'quota exceeded'*) status=3 ;; *) status=1 ;; esac
fi
cd "$root" && rm -rf "$folder"
exit "${status:-0}"
"""
)

# Arguments: token, maximum bytes. Reads `DIGEST PATH` lines and lays the files out in the job's folder. Then removes
# the files that were not used for the longest time, until the rest fits into the maximum.
STAGE = (
    _BEGIN
    + r"""
job=$root/jobs/$1 most=$2
cd "$job" || exit 1
while IFS=' ' read -r digest path; do
    [ -f "$root/blobs/$digest" ] || exit 5
    case $path in */*) mkdir -p "${path%/*}" || exit 3 ;; esac
    ln -f "$root/blobs/$digest" "$path" 2>/dev/null || cp -f "$root/blobs/$digest" "$path" || exit 3
done
mkdir -p out || exit 3
total=0
ls -t "$root/blobs" | while IFS= read -r digest; do
    size=$(wc -c <"$root/blobs/$digest") || continue
    total=$((total + size))
    [ "$total" -le "$most" ] || rm -f "$root/blobs/$digest"
done
"""
)

# Arguments: token, name, seconds, maximum size of a file in 512 bytes, command. Prints the exit status of the command.
RUN = (
    _BEGIN
    + _END_JOBS
    + r"""
job=$root/jobs/$1 name=$2 seconds=$3 most=$4
shift 4
cd "$job" || exit 1
mkdir -p "out/$name" || exit 3
ulimit -f "$most" 2>/dev/null
MODELBUILD_DEVICE_JOB=$root: setsid timeout -k 2 "$seconds" "$@" \
    >"out/$name/stdout" 2>"out/$name/stderr" </dev/null &
wait $!
status=$?
end_jobs
printf '%s\n' "$status"
"""
)

# Argument: token. Writes a tar of the job's outputs.
OUTPUTS = (
    _BEGIN
    + r"""
cd "$root/jobs/$1/out" && exec tar -cf - .
"""
)

# Prints the number of files in the store, and their kilobytes.
STORE = (
    _BEGIN
    + _MAKE
    + r"""
mkdir -p "$root/blobs" || exit 1
printf '%s %s\n' "$(ls "$root/blobs" | wc -l)" "$(du -sk "$root/blobs" | cut -f 1)"
"""
)

# Prints the seconds since 1970.
CLOCK = _BEGIN + "date +%s\n"

# Prints `name<TAB>value` lines: temperatures in degrees, clocks in MHz.
STATE = (
    _BEGIN
    + r"""
number() { case ${1#-} in '' | *[!0-9]*) return 1 ;; esac; }
for zone in /sys/class/thermal/thermal_zone*; do
    value=$(cat "$zone/temp" 2>/dev/null) || continue
    number "$value" || continue
    printf 'temperature.%s\t%s\n' "$(cat "$zone/type")" "$((value / 1000))"
done
for cpu in /sys/devices/system/cpu/cpu[0-9]*; do
    value=$(cat "$cpu/cpufreq/scaling_cur_freq" 2>/dev/null) || continue
    number "$value" || continue
    printf 'clock.%s\t%s\n' "${cpu##*/}" "$((value / 1000))"
done
if command -v nvidia-smi >/dev/null 2>&1; then
    timeout 20 nvidia-smi --query-gpu=index,temperature.gpu,clocks.sm --format=csv,noheader,nounits 2>/dev/null |
        while IFS=', ' read -r index temperature clock; do
            printf 'temperature.gpu%s\t%s\nclock.gpu%s\t%s\n' "$index" "$temperature" "$index" "$clock"
        done
fi
exit 0
"""
)
