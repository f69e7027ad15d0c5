//! Seeks in a data block, without a database.

use std::hint::black_box;
use std::time::Duration;

use cairn::compaction::ValueKind;
use cairn::{KeyOrder, SequenceNumber};
use cairn_bench::key_value_gen::Rng;
use cairn_format::block::{BlockBuilder, BlockKind, BlockLayout, BlockOptions, DataCursor};
use cairn_format::key::{InternalKey, LookupKey};

use crate::keys::random_text;
use crate::support::{Case, Sampling, run as run_case, timed};

/// The number of entries of the block.
const ENTRIES: u64 = 500;

/// The number of entries from one restart point to the next.
const RESTART_INTERVAL: usize = 16;

/// A block whose keys are the numbers of the entries, right-aligned in ten characters and followed by a `1`.
struct BlockSeek {
    bytes: Vec<u8>,
    targets: Vec<LookupKey>,
    random: Rng,
}

fn user_key(entry: u64) -> Vec<u8> {
    format!("{entry:6}{:4}1", 0).into_bytes()
}

impl BlockSeek {
    fn new() -> BlockSeek {
        let mut builder = BlockBuilder::new(BlockOptions {
            restart_interval: RESTART_INTERVAL,
            ..BlockOptions::default()
        });
        let (mut random, mut value) = (Rng::new(302), [0; 100]);
        for entry in 0..ENTRIES {
            random_text(&mut random, &mut value);
            let key = InternalKey::new(&user_key(entry), SequenceNumber(0), ValueKind::Value);
            builder.add(key.as_bytes(), &value);
        }
        let targets = (0..ENTRIES).map(|entry| LookupKey::new(&user_key(entry), SequenceNumber(0)));
        BlockSeek {
            bytes: builder.finish().to_vec(),
            targets: targets.collect(),
            random: Rng::new(301),
        }
    }
}

impl Case for BlockSeek {
    fn run(&mut self, operations: u64) -> Duration {
        timed(operations, || {
            let target = &self.targets[self.random.below(ENTRIES) as usize];
            let layout = BlockLayout::parse(&self.bytes, BlockKind::Data);
            let layout = layout.expect("the block is valid");
            let mut cursor = DataCursor::new();
            let order = KeyOrder::Bytewise;
            let found = cursor.seek_point(&self.bytes, &layout, &order, target.internal());
            found.expect("the block is valid");
            assert!(black_box(cursor.valid()), "the key is in the block");
        })
    }
}

/// Runs the case `DataBlockSeek`.
pub fn run() {
    run_case("DataBlockSeek", Sampling::Timed, BlockSeek::new);
}
