//! A whole table: opened, iterated both ways, sought in, read, verified.
//!
//! Seeds have no block checksums, so that mutations reach the decoders.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use cairn_format::key::{self, LookupKey};
use cairn_platform::{Io, RandomAccessFile};
use cairn_table::{GetOptions, IterOptions, OpenParams, Table, TableIter};
use cairn_types::{Progress, Result};

use crate::memory_limit::Bound;

/// Memory of codecs and their output.
pub const BOUND: Bound = Bound {
    base: 16 << 20,
    factor: 64,
};

/// Maximum number of iterator steps: a small index can refer to one block many times.
const MOST: usize = 2000;

/// A file in memory.
struct Bytes(Vec<u8>);

impl RandomAccessFile for Bytes {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let start = usize::try_from(offset)
            .unwrap_or(usize::MAX)
            .min(self.0.len());
        let len = buf.len().min(self.0.len() - start);
        buf[..len].copy_from_slice(&self.0[start..start + len]);
        Ok(len)
    }

    cairn_platform::derived_reads!();
    cairn_platform::no_hints!();

    fn len(&self) -> Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn path(&self) -> &Path {
        Path::new("000001.sst")
    }
}

/// Opens and reads the table. Errors are expected, panics are not.
pub fn run(data: &[u8]) {
    let io = Io::blocking();
    let file = Arc::new(Bytes(data.to_vec()));
    let Ok(table) = Table::open(file, data.len() as u64, OpenParams::default(), &io) else {
        return;
    };
    let mut iter = TableIter::new(table.clone(), IterOptions::default());
    let mut sought = Vec::new();
    let first = iter.seek_to_first();
    walk(&mut iter, first, TableIter::next, &mut sought);
    let last = iter.seek_to_last();
    walk(&mut iter, last, TableIter::prev, &mut sought);
    for target in &sought {
        let step = iter.seek(target);
        iter.complete(step, &io);
        let step = iter.seek_for_prev(target);
        iter.complete(step, &io);
        // Errors are expected; the iterations above have seen them.
        let _ = table.approximate_offset_of(target, &io);
        let lookup = LookupKey::new(key::user_key(target), key::sequence(target));
        let mut visits = 0;
        let _ = table.get_now(&lookup, &GetOptions::default(), &io, &mut |_, value| {
            assert!(value.range.end <= value.buffer.len());
            visits += 1;
            if visits < MOST {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        });
    }
    let _ = table.verify_checksums(&io);
}

fn walk(
    iter: &mut TableIter,
    begin: Progress,
    step: fn(&mut TableIter) -> Progress,
    sought: &mut Vec<Vec<u8>>,
) {
    let io = Io::blocking();
    iter.complete(begin, &io);
    for count in 0..MOST {
        if !iter.valid() {
            return;
        }
        if count % 37 == 0 && sought.len() < 8 && iter.key().len() >= key::SUFFIX_LEN {
            sought.push(iter.key()[..].to_vec());
        }
        let _ = iter.value();
        let progress = step(iter);
        iter.complete(progress, &io);
    }
}
