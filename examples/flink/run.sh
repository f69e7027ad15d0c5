#!/usr/bin/env bash
# Runs one Flink job on RocksDB's library and on Cairn's, and compares states and speed.
#
#     examples/flink/run.sh             the short form
#     examples/flink/run.sh --long      the short form, then a long one, together about ten minutes
#     examples/flink/run.sh loaders     Cairn's library in class loaders that are thrown away
#
# SCALE changes the size of the long form: 0.1 for a tenth of the records and keys.
# CAIRN_LIBRARY names a folder with librocksdbjni.so; without it, the library is built. RESULTS names a folder for the
# results.
set -euo pipefail
cd "$(dirname "$0")"
source ./setup.sh

results=${RESULTS:-$(mktemp -d)}
trap '[[ -n ${RESULTS:-} ]] || rm -rf "$results"' EXIT

# engine NAME SIZE TASK...: one process.
engine() {
    local name=$1 size=$2 path=()
    shift 2
    [[ $name == rocksdb ]] || path=(-Djava.library.path="$library")
    java "${java_options[@]}" -Dexample.scale="${SCALE:-1}" -Xms600m -Xmx600m -XX:+AlwaysPreTouch "${path[@]}" \
        cairn.flink.Main "$size" "$results/$size" "$name" "$@"
}

case ${1:-} in
loaders)
    java "${java_options[@]}" -Xmx300m -Djava.library.path="$library" cairn.flink.Loaders
    exit
    ;;
"" | --short | --long) ;;
*)
    sed -n '2,11s/^# \?//p' run.sh >&2
    exit 2
    ;;
esac

mkdir -p "$results/short"
engine rocksdb short run exchange
engine cairn short run exchange
engine rocksdb short finish
java "${java_options[@]}" cairn.flink.Compare "$results/short"

if [[ ${1:-} == --long ]]; then
    mkdir -p "$results/long"
    engine rocksdb long run
    engine cairn long run
    java "${java_options[@]}" cairn.flink.Compare "$results/long"
fi
