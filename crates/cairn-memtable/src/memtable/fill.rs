//! Filling a memtable with the sorted entries of a batch whose sequence numbers are assigned later.

use cairn_format::key;
use cairn_types::SequenceNumber;

use super::{Added, Memtable, Point};
use crate::skiplist::atomic::Ordering;
use crate::skiplist::sorted_positions;

impl Memtable {
    /// Adds `points`, whose sequence numbers ascend, to the memtable, which is empty. The numbers are relative: all are
    /// increased by [`Memtable::shift`] before others read the memtable.
    ///
    /// # Panics
    ///
    /// As for [`Memtable::add`], and if `points` has a range deletion.
    pub fn fill(&mut self, points: &[Point<'_>]) {
        debug_assert!(self.is_empty(), "only an empty memtable is filled");
        debug_assert!(
            points.is_sorted_by(|a, b| a.seq < b.seq),
            "sequence numbers ascend"
        );
        let kinds: Vec<_> = points
            .iter()
            .map(|point| self.stored_kind(point.kind, point.key))
            .collect();
        let mut added = Added::default();
        for (point, kind) in points.iter().zip(&kinds) {
            added.count(point, *kind);
        }
        let order = sorted_positions(self.list.order(), points.len(), |at| points[at].key);
        self.list.fill(order.map(|at| {
            let point = &points[at];
            (point.key, key::pack(point.seq, kinds[at]), point.value)
        }));
        // Relaxed, here and below: the memtable is published later, as a whole.
        self.deletions.store(added.deletions, Ordering::Relaxed);
        self.data_bytes.store(added.bytes, Ordering::Relaxed);
        if let Some((first, last)) = added.seqs {
            self.first_seq.store(first.0, Ordering::Relaxed);
            self.largest_seq.store(last.0, Ordering::Relaxed);
        }
    }

    /// Adds `base`, the last sequence number allocated before those of the entries, to all sequence numbers of the
    /// memtable, which was filled with [`Memtable::fill`]. Takes constant time: [`Memtable::finish_shift`] or the next
    /// read changes the entries.
    pub fn shift(&mut self, base: SequenceNumber) {
        debug_assert!(!self.has_range_tombstones(), "points have relative numbers");
        self.created_after = base;
        if self.is_empty() || base == SequenceNumber::ZERO {
            return;
        }
        self.list.shift(base.0);
        for seq in [&self.first_seq, &self.largest_seq] {
            seq.store(seq.load(Ordering::Relaxed) + base.0, Ordering::Relaxed);
        }
    }

    /// Changes the entries of a memtable that was shifted, unless a read has done so.
    pub fn finish_shift(&self) {
        self.list.finish_shift();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::ops::ControlFlow;
    use std::sync::Arc;

    use cairn_format::key::LookupKey;
    use cairn_memory::WriteBufferManager;
    use cairn_types::{KeyOrder, ValueKind};
    use proptest::prelude::*;

    use super::*;
    use crate::{Checks, FilterOptions, MemtableOptions};

    /// A key, a kind, and the length of a value.
    type Write = (Vec<u8>, ValueKind, usize);

    const KINDS: [ValueKind; 4] = [
        ValueKind::Value,
        ValueKind::Deletion,
        ValueKind::SingleDeletion,
        ValueKind::Merge,
    ];

    fn writes() -> impl Strategy<Value = Vec<Write>> {
        // Many keys are equal, and many share their first eight bytes.
        let key = (0..40_u64, prop::sample::select(vec![0, 1, 9]), 0..3_u64);
        let key = key.prop_map(|(nth, padding, timestamp)| {
            let mut key = vec![b'k'; padding];
            key.extend_from_slice(&nth.to_be_bytes()[8 - padding.min(8)..]);
            key.push(nth as u8);
            key.extend_from_slice(&timestamp.to_le_bytes());
            key
        });
        prop::collection::vec(
            (key, prop::sample::select(KINDS.to_vec()), 0..300_usize),
            0..200,
        )
    }

    fn memtable(order: &KeyOrder, checks: Checks, filter: bool) -> Memtable {
        let options = MemtableOptions {
            arena_block_size: 4096,
            filter: FilterOptions {
                bytes: if filter { 4096 } else { 0 },
                whole_keys: true,
                prefix_extractor: None,
            },
            checks,
            ..MemtableOptions::default()
        };
        Memtable::new(order.clone(), options)
    }

    fn points<'a>(writes: &'a [Write], value: &'a [u8]) -> Vec<Point<'a>> {
        let numbered = (1..).zip(writes);
        numbered
            .map(|(seq, (key, kind, len))| Point {
                seq: SequenceNumber(seq),
                kind: *kind,
                key,
                value: &value[..*len],
            })
            .collect()
    }

    /// The entries in the order of the keys, or in the reverse order if `back`.
    fn entries(table: &Arc<Memtable>, back: bool) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut iter = table.iter();
        let mut all = Vec::new();
        match back {
            false => iter.seek_to_first(),
            true => iter.seek_to_last(),
        }
        while iter.valid() {
            all.push((iter.key().to_vec(), iter.value().to_vec()));
            match back {
                false => iter.next(),
                true => iter.prev(),
            }
        }
        iter.status().expect("no entry is damaged");
        all
    }

    fn versions(table: &Memtable, key: &[u8], at: u64) -> Vec<(u64, ValueKind, Vec<u8>)> {
        let mut found = Vec::new();
        table.get(
            &LookupKey::new(key, SequenceNumber(at)),
            |seq, kind, value| {
                found.push((seq.0, kind, value.to_vec()));
                ControlFlow::Continue(())
            },
        );
        found
    }

    proptest! {
        #[test]
        fn a_filled_and_shifted_memtable_equals_one_with_insertions(
            writes in writes(),
            base in prop::sample::select(vec![0, 1, 1 << 20, 1_u64 << 40]),
            nth_order in 0..3_usize,
            checksum_len in prop::sample::select(vec![0_u8, 1, 8]),
            filter in any::<bool>(),
            first_read in 0..4,
        ) {
            let orders = [KeyOrder::Bytewise, KeyOrder::ReverseBytewise, KeyOrder::BytewiseU64Ts];
            let order = &orders[nth_order];
            let checks = Checks { checksum_len, on_seek: checksum_len > 0, order: checksum_len > 0 };
            let value = vec![b'v'; 300];
            let points = points(&writes, &value);

            let plain = memtable(order, checks, filter);
            for point in &points {
                let seq = point.seq.plus(base);
                prop_assert!(plain.add(seq, point.kind, point.key, point.value));
            }
            let plain = Arc::new(plain);

            let mut filled = memtable(order, checks, filter);
            filled.fill(&points);
            filled.shift(SequenceNumber(base));
            let filled = Arc::new(filled);
            // Any read changes the entries first.
            match first_read {
                0 => filled.finish_shift(),
                1 => prop_assert_eq!(entries(&filled, true), entries(&plain, true)),
                2 => {
                    let mut walk = filled.walk();
                    walk.start(None);
                    prop_assert!(!walk.iter().valid() || walk.iter().entry().unwrap().seq().0 > base);
                }
                _ => {}
            }
            for (key, ..) in &writes {
                for at in [0, base, base + writes.len() as u64 / 2, SequenceNumber::MAX.0] {
                    prop_assert_eq!(versions(&filled, key, at), versions(&plain, key, at));
                }
            }
            prop_assert_eq!(entries(&filled, false), entries(&plain, false));
            prop_assert_eq!(entries(&filled, true), entries(&plain, true));
            prop_assert_eq!(filled.entries(), plain.entries());
            prop_assert_eq!(filled.deletions(), plain.deletions());
            prop_assert_eq!(filled.data_bytes(), plain.data_bytes());
            prop_assert_eq!(filled.first_seq(), plain.first_seq());
            prop_assert_eq!(filled.largest_seq(), plain.largest_seq());
            prop_assert_eq!(filled.earliest_seq(), SequenceNumber(base));
        }
    }

    #[test]
    fn concurrent_first_reads_see_shifted_entries() {
        let value = vec![b'v'; 300];
        let writes: Vec<Write> = (0..2000_u64)
            .map(|nth| {
                (
                    (nth * 7919 % 2003).to_be_bytes().to_vec(),
                    ValueKind::Value,
                    10,
                )
            })
            .collect();
        for _ in 0..20 {
            let checks = Checks {
                checksum_len: 4,
                ..Checks::default()
            };
            let mut filled = memtable(&KeyOrder::Bytewise, checks, false);
            filled.fill(&points(&writes, &value));
            filled.shift(SequenceNumber(1 << 30));
            let filled = Arc::new(filled);
            std::thread::scope(|scope| {
                for thread in 0..3 {
                    let (filled, writes) = (&filled, &writes);
                    scope.spawn(move || {
                        for (key, ..) in writes.iter().skip(thread * 600).take(300) {
                            let found = versions(filled, key, SequenceNumber::MAX.0);
                            assert!(found.len() == 1 && found[0].0 > 1 << 30, "{found:?}");
                        }
                    });
                }
                scope.spawn(|| filled.finish_shift());
            });
            assert!(entries(&filled, false).len() == 2000);
        }
    }

    #[test]
    fn memory_is_charged_once_the_memtable_is_part_of_the_database() {
        let manager = Arc::new(WriteBufferManager::new(1 << 30, None, false));
        let value = vec![b'v'; 300];
        let writes: Vec<Write> = (0..500_u64)
            .map(|nth| (nth.to_be_bytes().to_vec(), ValueKind::Value, 100))
            .collect();
        let mut filled = memtable(&KeyOrder::Bytewise, Checks::default(), false);
        filled.fill(&points(&writes, &value));
        assert_eq!(manager.memory_usage(), 0);
        let filled = filled.accounted(manager.clone());
        assert_eq!(manager.memory_usage(), filled.memory_reserved());
        filled.seal();
        assert_eq!(manager.mutable_memtable_memory_usage(), 0);
        drop(filled);
        assert_eq!(manager.memory_usage(), 0);
    }
}
