//! A get that needs one block after another continues where it stopped.

use std::cmp::Ordering;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use cairn_format::key::{self, LookupKey};
use cairn_memory::{BlockCache, CacheOptions};
use cairn_options::{IndexType, TableOptions};
use cairn_platform::Io;
use cairn_table::{BuildParams, GetOptions, OpenParams, Table, TableGet, ValueRef};
use cairn_types::{Comparator, KeyOrder, Progress, SequenceNumber, ValueKind};

use crate::world::{Entry, build, open};

/// Bytewise order that counts comparisons.
#[derive(Default)]
struct Counting(AtomicU64);

impl Comparator for Counting {
    fn name(&self) -> &str {
        "counting"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        self.0.fetch_add(1, Relaxed);
        a.cmp(b)
    }
}

const VERSIONS: u64 = 1_000;

/// A key with many versions between two keys with one version each; two versions per block.
fn entries() -> Vec<Entry> {
    let entry = |user: &[u8], seq: u64| {
        let mut key = Vec::new();
        key::append_internal(&mut key, user, SequenceNumber(seq), ValueKind::Merge);
        (key, vec![seq as u8; 2_000])
    };
    let versions = (1..=VERSIONS).rev().map(|seq| entry(b"many", seq));
    [entry(b"before", 1)]
        .into_iter()
        .chain(versions)
        .chain([entry(b"none", 1)])
        .collect()
}

/// Gets the key with many versions; returns their sequence numbers and the number of missing blocks.
fn get(table: &Table) -> (Vec<u64>, usize) {
    get_and_wait(table, |state, _| state)
}

/// [`get`], which calls `wait` with the state while a block is read, and continues with the state that it returns.
fn get_and_wait(
    table: &Table,
    mut wait: impl FnMut(TableGet, &LookupKey) -> TableGet,
) -> (Vec<u64>, usize) {
    let lookup = LookupKey::new(b"many", SequenceNumber(VERSIONS));
    let (mut state, mut seqs, mut lacking) = (TableGet::new(), Vec::new(), 0);
    let mut step = |state: &mut TableGet| {
        let progress = table.get(&lookup, &GetOptions::default(), state, &mut |key, value| {
            assert_eq!(value.bytes()[0], key.seq.0 as u8);
            seqs.push(key.seq.0);
            ControlFlow::Continue(())
        });
        progress.unwrap()
    };
    while step(&mut state) == Progress::Lacks {
        lacking += 1;
        let bytes = Io::blocking().read_now(&state.request(table));
        state = wait(state, &lookup);
        state.supply(table, bytes).unwrap();
    }
    (seqs, lacking)
}

/// A table of [`entries`].
fn opened(order: KeyOrder, options: TableOptions, cache: Option<Arc<BlockCache>>) -> Arc<Table> {
    let options = Arc::new(options);
    let params = BuildParams {
        order: order.clone(),
        options: options.clone(),
        ..BuildParams::default()
    };
    let (bytes, _) = build(params, &entries(), &[]).expect("it is built");
    let params = OpenParams {
        order,
        options,
        cache,
        ..OpenParams::default()
    };
    open(&bytes, params).expect("it opens")
}

#[test]
fn a_suspended_get_continues_where_it_stopped() {
    let expected: Vec<u64> = (1..=VERSIONS).rev().collect();
    for index_type in [IndexType::BinarySearch, IndexType::TwoLevelIndexSearch] {
        for order in [
            KeyOrder::default(),
            KeyOrder::Custom(Arc::new(Counting::default())),
        ] {
            let options = TableOptions {
                index_type,
                metadata_block_size: 256,
                cache_index_and_filter_blocks: true,
                ..TableOptions::default()
            };
            let table = opened(order, options, None);
            let (_, plain) = get(&table);
            // Another get uses the state in the meantime, and the first continues in another one.
            let wait = |mut state: TableGet, lookup: &LookupKey| {
                let suspended = state.suspend();
                let visit = &mut |_: key::ParsedKey<'_>, _: ValueRef<'_>| ControlFlow::Break(());
                let other = table.get(lookup, &GetOptions::default(), &mut state, visit);
                assert!(other.is_ok());
                let mut next = TableGet::new();
                next.resume(&table, suspended);
                next
            };
            let (seqs, lacking) = get_and_wait(&table, wait);
            assert_eq!(seqs, expected);
            assert_eq!(lacking, plain, "each block is read once");
        }
    }
}

#[test]
fn a_key_that_fills_many_blocks_costs_few_comparisons_per_block() {
    for (index_type, held) in [
        (IndexType::BinarySearch, true),
        (IndexType::BinarySearch, false),
        (IndexType::TwoLevelIndexSearch, false),
    ] {
        let counting = Arc::new(Counting::default());
        let order = KeyOrder::Custom(counting.clone());
        let options = TableOptions {
            index_type,
            metadata_block_size: 256,
            cache_index_and_filter_blocks: !held,
            ..TableOptions::default()
        };
        let cache = Arc::new(BlockCache::new(8 << 20, CacheOptions::default()));
        let table = opened(order, options, Some(cache));
        let expected: Vec<u64> = (1..=VERSIONS).rev().collect();
        let mut costs = Vec::new();
        for first in [true, false] {
            let before = counting.0.load(Relaxed);
            let (seqs, lacking) = get(&table);
            costs.push(counting.0.load(Relaxed) - before);
            assert_eq!(seqs, expected);
            assert_eq!(lacking >= VERSIONS as usize / 2, first, "{lacking} blocks");
        }
        assert!(
            costs.iter().all(|&cost| cost < 10 * VERSIONS),
            "{costs:?} comparisons"
        );
    }
}
