//! The command `bench`: the benchmarks of `cairn-bench` with a progress bar.

use std::io::Write;

use cairn_bench::progress::Progress as Watcher;
use cairn_types::Result;

use crate::progress::Progress;

pub use cairn_bench::{Flags, normalized};

/// The end of `bench --help`.
pub const HELP: &str = "\
Benchmarks (those marked * start with a fresh database unless --use_existing_db is given):
  fillseq*          write all keys in order             readrandom      get random keys
  fillrandom*       write random keys                   readmissing     get keys that do not exist
  filluniquerandom* write each key once, shuffled       readhot         get from 1 % of the keys
  fillsync*         one thousandth, each write synced   readseq         scan forward
  fillbatch*        in order, 1000 keys per batch       readreverse     scan backward
  fill100K*         one thousandth, values of 100 kB    seekrandom      seek random keys
  overwrite         write random keys again             multireadrandom get in batches
  deleteseq         delete all keys in order            readwhilewriting, seekrandomwhilewriting
  deleterandom      delete random keys                  readrandomwriterandom  nine gets, one put
  updaterandom      get a random key and put it back    mergerandom     merge (requires --merge_operator)
  compact           compact everything                  flush           write memtables to tables
  waitforcompaction wait for background work            levelstats      print files and bytes per level
  stats             print the tree and its space        readrandomoperands  get unmerged operands
  multiscan         scan --multiscan_size ranges of --seek_nexts keys, --multiscan_stride keys apart, in one call;
                    rangescans scans them one after another. An operation is a range
  fillseqdeterministic*  in order, level by level, for a reproducible tree
  filltombstones*   write all keys in order, then delete all but every hundredth
  fillrangetombstones*  the same with one range tombstone per 99 keys (--keys_per_tombstone)
  filloperands*     64 merge operands for each key (requires --merge_operator)
  prefixscan        scan all entries of random prefixes (requires --prefix_size, --keys_per_prefix)
  prefixmissing     seek to missing prefixes (requires a --prefix_size above 8 and --keys_per_prefix)
  open              open the database and get one key, --reads times (default 10)
  debt*             write random keys, then wait until no compaction is due: time, space, amplification
  ycsba .. ycsbf    the workloads of the Yahoo! Cloud Serving Benchmark, with zipfian keys
  mixgraph          gets, puts and scans modelled on key and length distributions (--mix_*, --key_dist_*, ...)
  filllinkbench*    LinkBench's graph of --num nodes    linkbench       LinkBench's mix on that graph
  cachesim          simulate cache policies on traces, separately and without a database: hit ratios
  blobcache         blobcache-fill*, -lru, -pools, -fast: values of 1 KB in blob files, read at random by 16
                    threads, 5 reads per entry, with a cache of 1/28 of the data for blobs, data blocks and
                    metadata: LRU with a pool for metadata (0.1), LRU with another for data blocks (0.4), and
                    the clock cache; counts cache misses
  cache             lookups in a block cache without a database, and insertions after misses: values of 4 to
                    16 KiB, skew 0.99, --cache_size (1 GiB). The cases are cache95t1 to cache60t16: a hit ratio
                    of about 95 % or 60 %, and 1, 2 or 16 threads. Without --engines it compares Cairn's caches
                    and those of the library that `cargo xtask reference` builds
  memory            ten workloads in child processes, with the peak of resident memory of each under
                    --memory_budget (64M), and of each of --engines at equal explicit settings; memory-fill,
                    -reads, -scans, -families, -files, -iterators, -bursts, -blobs, -large-values and -openings
                    are one of them each

Examples:
  cairn bench
  cairn bench --benchmarks=fillrandom,readrandom --num=2000000 --bloom_bits=10 --cache_size=1G
  cairn bench --benchmarks=readrandom --use_existing_db --db=/tmp/d --threads=4 --duration=30
  cairn bench --benchmarks=fillseq --disable_wal --compression_type=none --write_buffer_size=256M
  cairn bench --engine=/usr/lib/librocksdb.so           the same through a library's C interface
  cairn bench --engines=ours,/usr/lib/librocksdb.so --benchmarks=fillrandom,readrandom --html=report.html
  cairn bench --engines=ours,librocksdb.so --prepare=fillrandom,compact --benchmarks=readseq,readrandom
  cairn bench --engines=ours,librocksdb.so --benchmarks=debt --num=10000000 --rounds=3
  cairn bench --prepare=filllinkbench --benchmarks=linkbench --memory_budget=1G --use_direct_reads --duration=600
  cairn bench --prepare=fillrandom --benchmarks=readrandom,readwhilewriting --num_multi_db=128 --threads=16

With --engines, each engine runs in its own process, in alternation (--rounds), with the same options;
the ratios tell how many times faster the first engine is than another.

Flags may be spelled as for db_bench: -num=5, --use_existing_db=1.";

impl Watcher for Progress {
    fn advance(&self, more: u64) {
        Progress::advance(self, more);
    }

    fn finish(&self) {
        Progress::finish(self);
    }
}

/// Runs the benchmarks selected by the flags.
///
/// # Errors
///
/// As [`cairn_bench::bench`].
pub fn run(flags: &Flags, out: &mut dyn Write) -> Result<()> {
    let begin = |name: &str, total| Box::new(Progress::items(name, total)) as Box<dyn Watcher>;
    cairn_bench::bench(flags, &begin, out)
}
