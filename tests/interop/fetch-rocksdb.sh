#!/usr/bin/env bash
# Fetches RocksDB's library for comparisons: the published Java package contains a shared library
# whose C API is exported. It is unpacked into target/rocksdb/ once; later calls do nothing.
set -euo pipefail
cd "$(dirname "$0")/../.."

version=11.1.1
library=librocksdbjni-linux64.so
folder=target/rocksdb
stamp="$folder/.version"

# Another stage may be fetching it.
mkdir -p "$folder"
exec 9>"$folder/.lock"
flock 9
if [[ -f "$folder/$library" && "$(cat "$stamp" 2>/dev/null)" == "$version" ]]; then
    exit 0
fi
for tool in mvn unzip; do
    command -v "$tool" >/dev/null || { echo "fetch-rocksdb.sh: $tool is missing" >&2; exit 1; }
done

mvn -q -B org.apache.maven.plugins:maven-dependency-plugin:copy \
    "-Dartifact=org.rocksdb:rocksdbjni:$version" "-DoutputDirectory=$folder" >&2
unzip -o -q "$folder/rocksdbjni-$version.jar" "$library" -d "$folder"
rm "$folder/rocksdbjni-$version.jar"
echo "$version" >"$stamp"
echo "RocksDB $version is at $folder/$library" >&2
