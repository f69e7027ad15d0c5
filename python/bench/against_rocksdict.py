"""Measures Cairn and rocksdict in alternating processes and prints the ratios of the medians.

    python bench/against_rocksdict.py [--entries 200000] [--runs 5] [--markdown]

Keys have 16 bytes and values 100. Both engines have a block cache of 256 MiB, LZ4 compression and Bloom filters of 10
bits. Loads are logged; reads follow a flush and a compaction, with every block cached. rocksdict is in its raw mode,
in which it neither pickles nor tags keys and values.
"""

import argparse
import json
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

CASES = ["put", "batch of 100", "get", "get, missing", "multi-get of 32", "seek and 10", "scan of items", "scan of keys"]


def keys_of(count):
    order = list(range(count))
    random.Random(7).shuffle(order)
    return [b"%016d" % (number * 7919) for number in order]


class Ours:
    def __init__(self, path):
        import cairn

        self.cairn = cairn
        self.db = cairn.Db(
            path,
            create_if_missing=True,
            compression="kLZ4Compression",
            filter_policy="bloomfilter:10:false",
            block_cache=str(256 << 20),
            write_buffer_size=64 << 20,
        )
        self.get, self.put, self.multi_get = self.db.get, self.db.put, self.db.multi_get

    def batch(self, pairs):
        batch = self.cairn.WriteBatch()
        put = batch.put
        for key, value in pairs:
            put(key, value)
        self.db.write(batch)

    def settle(self):
        self.db.flush()
        self.db.compact_range()

    def range(self, start, count):
        scan = self.db.items(start)
        return [pair for pair, _ in zip(scan, range(count))]

    def items(self):
        return self.db.items()

    def keys(self):
        return self.db.keys()

    def close(self):
        self.db.close()


class Theirs:
    def __init__(self, path):
        import rocksdict

        self.rocksdict = rocksdict
        options = rocksdict.Options(raw_mode=True)
        options.create_if_missing(True)
        options.set_compression_type(rocksdict.DBCompressionType.lz4())
        options.set_write_buffer_size(64 << 20)
        table = rocksdict.BlockBasedOptions()
        table.set_block_cache(rocksdict.Cache(256 << 20))
        table.set_bloom_filter(10, False)
        options.set_block_based_table_factory(table)
        self.db = rocksdict.Rdict(path, options)
        self.get, self.put = self.db.get, self.db.put

    def multi_get(self, keys):
        return self.db.get(keys)

    def batch(self, pairs):
        batch = self.rocksdict.WriteBatch(raw_mode=True)
        put = batch.put
        for key, value in pairs:
            put(key, value)
        self.db.write(batch)

    def settle(self):
        self.db.flush()
        self.db.compact_range(None, None)

    def range(self, start, count):
        scan = self.db.items(from_key=start)
        return [pair for pair, _ in zip(scan, range(count))]

    def items(self):
        return self.db.items()

    def keys(self):
        return self.db.keys()

    def close(self):
        self.db.close()


def measure(engine, count):
    """Nanoseconds per operation of each case, of this process's CPU time and of the clock."""
    path = tempfile.mkdtemp()
    times = {}

    def timed(case, operations, work):
        begun, cpu = time.perf_counter(), time.thread_time()
        work()
        times[case] = (time.thread_time() - cpu) / operations * 1e9
        times[case + ", clock"] = (time.perf_counter() - begun) / operations * 1e9

    keys, value = keys_of(count), bytes(range(100))
    db = {"cairn": Ours, "rocksdict": Theirs}[engine](path)
    put, get, multi_get = db.put, db.get, db.multi_get

    def puts():
        for key in keys:
            put(key, value)

    def batches():
        for at in range(0, count, 100):
            db.batch([(key, value) for key in keys[at : at + 100]])

    def gets():
        for key in keys:
            get(key)

    missing = [key + b"x" for key in keys]

    def misses():
        for key in missing:
            get(key)

    def multi():
        for at in range(0, count - 32, 32):
            multi_get(keys[at : at + 32])

    def seeks():
        for key in keys[: count // 8]:
            db.range(key, 10)

    def scan(of):
        assert sum(1 for _ in of()) == count

    timed("put", count, puts)
    timed("batch of 100", count, batches)
    db.settle()
    gets()
    assert get(keys[0]) == value and get(missing[0]) is None
    assert list(multi_get(keys[:2])) == [value] * 2 and len(db.range(keys[0], 1)) == 1
    timed("get", count, gets)
    timed("get, missing", count, misses)
    timed("multi-get of 32", count, multi)
    timed("seek and 10", count // 8, seeks)
    scan(db.items)
    timed("scan of items", count, lambda: scan(db.items))
    timed("scan of keys", count, lambda: scan(db.keys))
    db.close()
    shutil.rmtree(path, ignore_errors=True)
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, default=200_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--engine", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.engine:
        print(json.dumps(measure(arguments.engine, arguments.entries)))
        return
    results = {"cairn": [], "rocksdict": []}
    for _ in range(arguments.runs):
        for engine, found in results.items():
            command = [sys.executable, __file__, "--engine", engine, "--entries", str(arguments.entries)]
            found.append(json.loads(subprocess.run(command, check=True, capture_output=True).stdout))
    print("| operation | Cairn, CPU ns | rocksdict, CPU ns | ratio | lowest to highest run | ratio of clock time |")
    print("|---|---|---|---|---|---|")
    for case in CASES:
        ours, theirs = ([run[case] for run in results[engine]] for engine in results)
        ratios = sorted(b / a for a, b in zip(ours, theirs))
        a, b = statistics.median(ours), statistics.median(theirs)
        clock = [statistics.median(run[case + ", clock"] for run in results[engine]) for engine in results]
        print(
            f"| {case} | {a:.0f} | {b:.0f} | {b / a:.2f} | {ratios[0]:.2f} to {ratios[-1]:.2f} | {clock[1] / clock[0]:.2f} |"
        )


if __name__ == "__main__":
    main()
