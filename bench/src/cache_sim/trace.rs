//! Traces of block reads.

use cairn_memory::CachePriority;

use crate::key_value_gen::{Rng, mix};
use crate::ycsb::Zipfian;

/// A read of a block.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// The block; keys of a trace are consecutive numbers.
    pub key: u32,
    /// Bytes of the block.
    pub charge: u32,
    /// The priority of the block in the cache.
    pub priority: CachePriority,
}

/// An event of a trace.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// A block is read.
    Read(Request),
    /// A block is deleted with its file.
    Erase(u32),
}

/// A sequence of events.
pub struct Trace {
    /// The name in reports.
    pub name: &'static str,
    /// Exclusive upper bound of the keys.
    pub keys: usize,
    /// The events.
    pub events: Vec<Event>,
    /// Cache sizes to simulate, as shares of the size of the data.
    pub shares: &'static [f64],
    /// Size of the data in bytes, to which the cache sizes relate.
    pub bytes: u64,
    /// Number of events before hits are counted.
    pub warm_up: usize,
}

/// The default shares of the data to cache.
const SHARES: &[f64] = &[0.02, 0.1, 0.3];

impl Trace {
    /// Creates a trace of data blocks of various sizes.
    fn of_blocks(name: &'static str, blocks: u64, keys: impl Iterator<Item = u64>) -> Trace {
        let events: Vec<Event> = keys.map(|key| Event::Read(block(key))).collect();
        let most = events.iter().map(|event| match event {
            Event::Read(request) => request.key,
            Event::Erase(key) => *key,
        });
        Trace {
            name,
            keys: most.max().map_or(0, |most| most as usize + 1),
            shares: SHARES,
            bytes: (0..blocks).map(|key| u64::from(block(key).charge)).sum(),
            warm_up: events.len() / 5,
            events,
        }
    }

    /// The reads.
    pub fn requests(&self) -> impl Iterator<Item = &Request> {
        self.events.iter().filter_map(|event| match event {
            Event::Read(request) => Some(request),
            Event::Erase(_) => None,
        })
    }

    /// The same events with other cache sizes.
    #[must_use]
    fn at(self, shares: &'static [f64]) -> Trace {
        Trace { shares, ..self }
    }
}

/// The data block with a number: mostly about 4 KiB, and one of 32 is 16 KiB.
fn block(key: u64) -> Request {
    let drawn = mix(key ^ 0xb10c);
    let charge = match drawn % 32 {
        0 => 16 << 10,
        _ => (3 << 10) + (drawn >> 32) as u32 % (2 << 10),
    };
    Request {
        key: key as u32,
        charge,
        priority: CachePriority::Low,
    }
}

/// Reads of `blocks` blocks with a Zipf distribution.
pub fn zipf(blocks: u64, reads: usize) -> Trace {
    let (zipfian, mut rng) = (Zipfian::new(blocks), Rng::new(1));
    let keys = (0..reads).map(|_| zipfian.scattered(&mut rng));
    Trace::of_blocks("zipf", blocks, keys)
}

/// A Zipf distribution, with a third of the reads in scans of cold blocks.
pub fn zipf_and_scans(blocks: u64, reads: usize) -> Trace {
    let (zipfian, mut rng) = (Zipfian::new(blocks), Rng::new(2));
    let (period, scan, cold) = (blocks / 20, blocks / 40, blocks * 4);
    let mut left = 0;
    let mut next = 0;
    let mut since = 0;
    let keys = (0..reads).map(|_| {
        since += 1;
        if since == period {
            since = 0;
            left = scan;
            next = rng.below(cold);
        }
        // A scan is interleaved with other reads.
        if left > 0 && rng.below(4) > 0 {
            left -= 1;
            next = (next + 1) % cold;
            return blocks + next;
        }
        zipfian.scattered(&mut rng)
    });
    Trace::of_blocks("zipf+scan", blocks, keys)
}

/// A cyclic scan of all blocks, with caches for 1/1.1, 1/1.5 and half of them.
pub fn cycle(blocks: u64, reads: usize) -> Trace {
    let keys = (0..reads as u64).map(|at| at % blocks);
    Trace::of_blocks("loop", blocks, keys).at(&[0.5, 1.0 / 1.5, 1.0 / 1.1])
}

/// Half of the reads with a Zipf distribution, half in a cyclic scan of half as many other blocks.
pub fn zipf_and_cycle(blocks: u64, reads: usize) -> Trace {
    let (zipfian, mut rng) = (Zipfian::new(blocks), Rng::new(3));
    let mut next = 0;
    let keys = (0..reads).map(|_| {
        if rng.below(2) == 0 {
            return zipfian.scattered(&mut rng);
        }
        next = (next + 1) % (blocks / 2);
        blocks + next
    });
    Trace::of_blocks("zipf+loop", blocks + blocks / 2, keys)
}

/// A Zipf distribution with other hot blocks after each of `shifts` parts of the trace.
pub fn shifting(blocks: u64, reads: usize, shifts: usize) -> Trace {
    let (zipfian, mut rng) = (Zipfian::new(blocks), Rng::new(4));
    let keys = (0..reads).map(|at| {
        let part = (at * shifts / reads) as u64;
        mix(zipfian.rank(&mut rng) ^ (part << 40)) % blocks
    });
    Trace::of_blocks("shift", blocks, keys)
}

/// A Zipf distribution whose hot range moves by one block every few reads.
pub fn drifting(blocks: u64, reads: usize) -> Trace {
    let (zipfian, mut rng) = (Zipfian::new(blocks), Rng::new(5));
    let keys = (0..reads).map(|at| {
        let drift = at as u64 * 2 * blocks / reads as u64;
        let rank = zipfian.rank(&mut rng);
        // Adjacent blocks have unrelated ranks; the rank of a block changes when the range moves.
        (rank * 7 + drift * 7) % blocks
    });
    Trace::of_blocks("drift", blocks, keys)
}

/// Mostly reads of recently read blocks: the n-th most recent one is read with a probability that falls with
/// n.
pub fn recent(blocks: u64, reads: usize) -> Trace {
    let mut rng = Rng::new(6);
    let mut fresh = 0;
    let mut past: Vec<u64> = Vec::with_capacity(reads);
    let most = blocks as f64 / 8.0;
    for at in 0..reads {
        // Distances are exponentially distributed, and one in five reads is of a new block.
        let back = (-(1.0 - rng.share()).ln() * most) as usize;
        let key = if rng.below(5) == 0 || back >= at {
            fresh = (fresh + 1) % blocks;
            fresh
        } else {
            past[at - 1 - back]
        };
        past.push(key);
    }
    Trace::of_blocks("recent", blocks, past.into_iter())
}

/// A Zipf distribution, a cyclic scan, then a drifting hot set, for a third of the time each.
pub fn phases(blocks: u64, reads: usize) -> Trace {
    let third = reads / 3;
    let parts = [
        zipf(blocks, third),
        cycle(blocks / 4, third),
        drifting(blocks, third),
    ];
    let keys = parts
        .iter()
        .flat_map(|part| part.requests().map(|request| u64::from(request.key)));
    Trace::of_blocks("phases", blocks, keys)
}
