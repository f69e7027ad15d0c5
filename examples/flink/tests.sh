#!/usr/bin/env bash
# Runs Flink's own tests of its RocksDB state backend with RocksDB's library and with Cairn's, and prints the passes.
#
#     examples/flink/tests.sh [CLASS...]
#
# Exits with an error if a class passes fewer tests with Cairn's library. Reports are in target/flink-tests.
set -euo pipefail
cd "$(dirname "$0")"
source ./setup.sh

classes=("$@")
if [[ $# == 0 ]]; then
    mapfile -t classes < <(grep -v '^#' tests.txt)
fi
reports=$PWD/target/flink-tests
# The folders must not lie in a path that the tests replace.
mkdir -p "$reports/tmp"

# passes LIBRARY CLASS: prints the numbers of successful and failed tests.
passes() {
    local name=$1 class=$2 path=() log=$reports/$1/$2.txt
    mkdir -p "$reports/$name"
    [[ $name == rocksdb ]] || path=(-Djava.library.path="$library")
    timeout 1200 java "${opens[@]}" -ea -Xmx1g -Djava.io.tmpdir="$reports/tmp" "${path[@]}" \
        -cp "target/test-classes:target/classes:$(cat target/test-classpath)" \
        org.junit.platform.console.ConsoleLauncher execute --select-class "$class" --details=summary \
        --disable-banner >"$log" 2>&1 || true
    awk '/tests successful/ { good = $2 } /tests failed/ { bad = $2 } END { print good + 0, bad + (good == "") }' "$log"
}

worse=0
printf '| class | RocksDB | Cairn |\n|---|---|---|\n'
for class in "${classes[@]}"; do
    read -r theirs theirs_failed < <(passes rocksdb "$class")
    read -r ours ours_failed < <(passes cairn "$class")
    printf '| %s | %s of %s | %s of %s |\n' "${class##*.}" "$theirs" $((theirs + theirs_failed)) "$ours" $((ours + ours_failed))
    ((ours >= theirs)) || worse=1
done
rm -rf "$reports/tmp"
exit $worse
