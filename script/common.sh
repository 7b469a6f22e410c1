# Sourced by every script here: where the project is, how scripts speak, what MPI needs to know. Not run by itself.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
deps="$root/.deps"
name=$(basename "$0")
cd "$root"

say() { printf '[%s] %s\n' "$name" "$*"; }
fail() { printf '[%s] FAILED: %s\n' "$name" "$*" >&2; exit 1; }

# Prints the head of the script and ends it, if one of its arguments asks for help.
help_if_asked() {
  local word
  for word in "$@"; do
    case "$word" in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$root/script/$name"; exit 0 ;; esac
  done
}

# Open MPI refuses to start as root unless told so twice.
if [ "$(id -u)" -eq 0 ]; then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi

# How many compilers may run at once: one a core, and 1.5 GiB for each (a LibTorch file with a sanitizer takes that much).
build_jobs() {
  local cores kib by_memory
  cores=$(nproc)
  kib=$(awk '/^MemAvailable:/ { print $2 }' /proc/meminfo)
  by_memory=$(( ${kib:-1572864} / 1572864 ))
  [ "$by_memory" -ge 1 ] || by_memory=1
  if [ "$by_memory" -lt "$cores" ]; then echo "$by_memory"; else echo "$cores"; fi
}

# How many tests may run at once, in the slots that their PROCESSORS counts: three for two cores, for most wait more than they
# compute.
test_slots() { echo $(( ($(nproc) * 3 + 1) / 2 )); }

# Minutes and seconds since $1 (a value of $SECONDS).
took() { local s=$(( SECONDS - $1 )); printf '%d min %02d s' $(( s / 60 )) $(( s % 60 )); }

# Files of the project whose names end as given, NUL-separated. Works without git.
project_files() {
  local wanted=() ending
  for ending in "$@"; do wanted+=(-o -name "*$ending"); done
  find . \( -path ./.git -o -path ./.deps -o -path ./build -o -path ./data \) -prune -o -type f \
    \( "${wanted[@]:1}" \) -print0
}
