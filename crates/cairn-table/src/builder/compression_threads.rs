//! The compression of data blocks by other threads (`parallel_threads` of the compression options).
//!
//! The builder gives finished blocks to its threads in turn, and takes the results in the same order, always after the same
//! number of further blocks: the content of the file does not depend on the timing of the threads. Nor does it depend on
//! their number, with two exceptions: the estimate of `auto_skip` does not include the blocks that the threads still have,
//! and with a dictionary, the output of the library for zlib may depend on the block that the compressor had before. A thread
//! has a compressor of its own and two channels, which hold all of its blocks, so that no thread waits to give one. Dropping
//! the sender of its blocks ends it.
//!
//! Codecs that compress a block in a few microseconds are left to the builder, as in RocksDB, and so are small tables, for
//! which threads would not be worth their start.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use cairn_compress::{Compression, Dictionary};
use cairn_types::{Error, Result};

use crate::builder::packer::{BlockCompressor, Packer};
use crate::builder::params::BuildParams;

/// The blocks that a thread has at a time, done or not.
const BLOCKS_PER_THREAD: usize = 4;

/// The blocks of a table that the builder compresses itself.
const BLOCKS_ALONE: usize = 16;

/// The largest number of threads of a builder.
const MAX_THREADS: u32 = 64;

/// A block that was given to a thread.
pub(super) struct Done {
    pub raw: Vec<u8>,
    /// The compressed form, if it saves enough.
    pub stored: Option<Vec<u8>>,
    /// False if the block was not to be compressed.
    pub tried: bool,
}

/// A block and the room for its compressed form.
struct Job {
    raw: Vec<u8>,
    room: Vec<u8>,
}

struct Worker {
    jobs: SyncSender<Job>,
    done: Receiver<Result<Done>>,
}

/// The threads of a builder, and the blocks that they have.
pub(super) struct CompressionThreads {
    workers: Vec<Worker>,
    threads: Vec<JoinHandle<()>>,
    /// The worker to which the next block goes.
    next: usize,
    /// The blocks that were given, oldest first: the number of the worker that has it, or a block not to be compressed;
    /// and its size.
    given: VecDeque<(Holder, usize)>,
    /// The total size of the blocks that were given.
    raw_bytes: usize,
    /// Buffers for further blocks.
    spare: Vec<Vec<u8>>,
}

enum Holder {
    Worker(usize),
    Itself(Vec<u8>),
}

/// True if `codec` takes long enough for a block to be worth another thread.
fn is_slow(codec: Compression, level: i32) -> bool {
    match codec {
        Compression::Zlib | Compression::Bzip2 | Compression::Lz4hc => true,
        // Negative levels are those of its fast mode.
        Compression::Zstd => level >= 0,
        _ => false,
    }
}

impl CompressionThreads {
    /// Starts the threads of a table with `blocks` finished blocks, which are compressed like those of `packer`. `None` if
    /// the builder is to compress the next block itself.
    pub(super) fn start(
        params: &BuildParams,
        packer: &Packer,
        blocks: usize,
    ) -> Result<Option<CompressionThreads>> {
        let options = &params.compression_options;
        let wanted = options.parallel_threads.min(MAX_THREADS);
        if wanted < 2 || blocks < BLOCKS_ALONE || !is_slow(packer.kind(), options.level) {
            return Ok(None);
        }
        let mut threads = CompressionThreads {
            workers: Vec::new(),
            threads: Vec::new(),
            next: 0,
            given: VecDeque::new(),
            raw_bytes: 0,
            spare: Vec::new(),
        };
        for _ in 0..wanted {
            let dictionary = packer.dictionary().map(Dictionary::raw);
            let dictionary = dictionary.map(|raw| Dictionary::new(raw.to_vec()));
            let compressor = BlockCompressor::new(params, dictionary)?;
            let (jobs, to_do) = sync_channel(BLOCKS_PER_THREAD);
            let (results, done) = sync_channel(BLOCKS_PER_THREAD);
            let named = std::thread::Builder::new().name("cairn-compress".to_owned());
            // Without further threads, those that were started do the work.
            let Ok(thread) = named.spawn(move || compress_all(compressor, &to_do, &results)) else {
                break;
            };
            threads.threads.push(thread);
            threads.workers.push(Worker { jobs, done });
        }
        Ok((!threads.workers.is_empty()).then_some(threads))
    }

    /// True if a block has to be taken before the next one is given.
    pub(super) fn is_full(&self) -> bool {
        self.given.len() >= self.workers.len() * BLOCKS_PER_THREAD
    }

    pub(super) fn is_empty(&self) -> bool {
        self.given.is_empty()
    }

    /// The total size of the blocks that were given and not taken, uncompressed.
    pub(super) fn raw_bytes(&self) -> u64 {
        self.raw_bytes as u64
    }

    /// The memory of blocks, in bytes: each has room for its compressed form.
    pub(super) fn memory_usage(&self) -> usize {
        2 * self.raw_bytes + self.spare.iter().map(Vec::capacity).sum::<usize>()
    }

    /// Gives the block `raw` to a thread, if it is to be compressed.
    pub(super) fn give(&mut self, raw: &[u8], tries: bool) -> Result<()> {
        let mut copy = self.spare.pop().unwrap_or_default();
        copy.clear();
        copy.extend_from_slice(raw);
        let holder = match tries {
            false => Holder::Itself(copy),
            true => {
                let room = self.spare.pop().unwrap_or_default();
                let worker = self.next;
                self.next = (worker + 1) % self.workers.len();
                let job = Job { raw: copy, room };
                self.workers[worker].jobs.send(job).map_err(|_| ended())?;
                Holder::Worker(worker)
            }
        };
        self.given.push_back((holder, raw.len()));
        self.raw_bytes += raw.len();
        Ok(())
    }

    /// Takes the block that was given first, and waits for it. There must be one.
    pub(super) fn take(&mut self) -> Result<Done> {
        let (holder, len) = self.given.pop_front().ok_or_else(ended)?;
        self.raw_bytes -= len;
        match holder {
            Holder::Worker(worker) => self.workers[worker].done.recv().map_err(|_| ended())?,
            Holder::Itself(raw) => Ok(Done {
                raw,
                stored: None,
                tried: false,
            }),
        }
    }

    /// Keeps the buffers of a block that was taken.
    pub(super) fn recycle(&mut self, raw: Vec<u8>, stored: Option<Vec<u8>>) {
        self.spare.push(raw);
        self.spare.extend(stored);
    }
}

impl Drop for CompressionThreads {
    fn drop(&mut self) {
        self.workers.clear();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Compresses the blocks of a thread until the builder has no more.
fn compress_all(
    mut compressor: BlockCompressor,
    jobs: &Receiver<Job>,
    results: &SyncSender<Result<Done>>,
) {
    for Job { raw, mut room } in jobs {
        let done = compressor.compress(&raw, &mut room).map(|shrunk| Done {
            raw,
            stored: shrunk.then_some(room),
            tried: true,
        });
        if results.send(done).is_err() {
            return;
        }
    }
}

#[cold]
fn ended() -> Error {
    Error::panicked("a thread that compresses blocks has ended before the table was complete")
}
