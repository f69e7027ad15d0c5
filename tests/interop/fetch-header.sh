#!/usr/bin/env bash
# Fetches RocksDB 7.8's C header: it is unpacked from Debian's package into target/rocksdb-dev/ once;
# later calls do nothing. The package is not installed.
set -euo pipefail
cd "$(dirname "$0")/../.."

folder=target/rocksdb-dev
[[ -f "$folder/usr/include/rocksdb/c.h" ]] && exit 0
for tool in apt-get dpkg-deb; do
    command -v "$tool" >/dev/null || { echo "fetch-header.sh: $tool is missing" >&2; exit 1; }
done

mkdir -p "$folder"
cd "$folder"
apt-get download -qq librocksdb-dev 2>/dev/null || { apt-get update -qq && apt-get download -qq librocksdb-dev; }
dpkg-deb --fsys-tarfile librocksdb-dev_*.deb | tar -x ./usr/include
rm librocksdb-dev_*.deb
