#!/usr/bin/env bash
# Runs Spark's own tests of its RocksDB state store with RocksDB's library and with Cairn's, and prints the passes.
#
#     examples/spark/tests.sh [SUITE...]
#
# Exits with an error if a test fails with Cairn's library only. Reports are in target.
# CAIRN_LIBRARY names a folder with librocksdbjni.so; without it, the library is built.
set -euo pipefail
cd "$(dirname "$0")"
for tool in java mvn; do
    command -v $tool >/dev/null && continue
    echo "$tool is missing: install a JDK 17 and Maven" >&2
    exit 1
done
library=$PWD/target/lib
mkdir -p "$library" target/home target/tmp
if [[ -n ${CAIRN_LIBRARY:-} ]]; then
    cp --remove-destination "$CAIRN_LIBRARY/librocksdbjni.so" "$library"
else
    cargo build --quiet --release --locked --package cairn-rocksdbjni
    cp --remove-destination "${CARGO_TARGET_DIR:-../../target}/release/librocksdbjni.so" "$library"
fi
mvn -q -B dependency:build-classpath -Dmdep.outputFile=target/classpath
classpath=$(cat target/classpath)
tests=$(tr ':' '\n' <target/classpath | grep '/spark-sql_.*-tests\.jar$')

suites=("$@")
if [[ $# == 0 ]]; then
    mapfile -t suites < <(grep -v '^#' tests.txt)
fi
# The packages of the JDK that Spark's launcher opens.
opens=()
for package in java.lang java.lang.invoke java.lang.reflect java.io java.net java.nio java.util java.util.concurrent \
    java.util.concurrent.atomic jdk.internal.ref sun.nio.ch sun.nio.cs sun.security.action sun.util.calendar; do
    opens+=(--add-opens "java.base/$package=ALL-UNNAMED")
done

# run LIBRARY SUITE: writes the log, the names of failed tests, and prints the numbers of passed and of all tests.
run() {
    local name=$1 suite=$2 path=() log=$PWD/target/$1-$2
    [[ $name == rocksdb ]] || path=(-Djava.library.path="$library")
    # With assertions: some tests expect RocksJava's.
    java -ea -Xmx3g -Xss4m "${opens[@]}" --add-modules=jdk.incubator.vector -Djava.io.tmpdir="$PWD/target/tmp" \
        -Dspark.testing=1 -Dspark.test.home="$PWD/target/home" -Dspark.ui.enabled=false "${path[@]}" -cp "$classpath" \
        org.scalatest.tools.Runner -oWDF -R "$tests" \
        -s "org.apache.spark.sql.execution.streaming.state.$suite" >"$log.log" 2>&1 || true
    sed -n 's/^- \(.*\) \*\*\* FAILED \*\*\*.*/\1/p' "$log.log" | sort >"$log.failed"
    awk '/^Tests: succeeded/ { gsub(",", ""); print $3, $3 + $5; found = 1 } END { if (!found) print 0, "unknown" }' "$log.log"
}

worse=0
printf '| suite | RocksDB | Cairn |\n|---|---|---|\n'
for suite in "${suites[@]}"; do
    read -r theirs all < <(run rocksdb "$suite")
    read -r ours of < <(run cairn "$suite")
    printf '| %s | %s of %s | %s of %s |\n' "$suite" "$theirs" "$all" "$ours" "$of"
    only=$(comm -13 "target/rocksdb-$suite.failed" "target/cairn-$suite.failed")
    if [[ -n $only || $all != "$of" ]]; then
        printf 'fails with Cairn only: %s\n' "$only" >&2
        worse=1
    fi
done
rm -rf target/tmp
exit $worse
