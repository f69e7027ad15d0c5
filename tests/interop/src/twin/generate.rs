//! Scripts from seeds: the same seed and set generate the same operations on every machine.

use super::ops::{
    Act, CHANGES, Cf, Change, Deed, How, Key, Move, ORDINARY, Op, PROPERTIES, Ro, SINGLES,
    SINGLES_COUNT, SLOTS, TXNS, Val, ro,
};
use super::sets::{Callback, Set, Transactions};

/// Random numbers (`SplitMix64`).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`.
    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn index(&mut self, end: usize) -> usize {
        usize::try_from(self.below(end as u64)).expect("below a usize")
    }

    fn small(&mut self, end: u16) -> u16 {
        u16::try_from(self.below(end.into())).expect("below a u16")
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// The script of a seed.
#[must_use]
pub fn script(set: &Set, seed: u64, count: usize) -> Vec<Op> {
    let mut maker = Maker {
        set,
        random: Random(seed ^ 0x0074_7769_6e00),
        stamp: 0,
        // The conflict checks of RocksDB's transactions do not see range deletions.
        ranges: seed.is_multiple_of(2) && set.transactions == Transactions::None,
        // RocksDB's tailing iterators return wrong results for ranges deleted, and for values written
        // to blob files, after their creation.
        tails: !seed.is_multiple_of(2) && set.name != "blobs",
        reopen_in: None,
    };
    (0..count).map(|_| maker.op()).collect()
}

struct Maker<'a> {
    set: &'a Set,
    random: Random,
    stamp: u16,
    /// True if scripts delete ranges.
    ranges: bool,
    /// True if iterators may be tailing.
    tails: bool,
    /// The number of operations until a read-only database is reopened for writing.
    reopen_in: Option<u64>,
}

impl Maker<'_> {
    fn op(&mut self) -> Op {
        match self.reopen_in {
            Some(0) => {
                self.reopen_in = None;
                return Op::Reopen;
            }
            Some(left) => self.reopen_in = Some(left - 1),
            None => {}
        }
        let slot = self.random.index(SLOTS);
        let two = slot % 2;
        if self.set.transactions != Transactions::None && self.random.chance(40) {
            return self.transaction(slot % TXNS);
        }
        match self.random.below(1000) {
            0..250 => self.write(),
            250..370 => self.get(),
            370..395 => self.multi(),
            395..425 => Op::IterNew(slot, self.cf(), self.walk_options()),
            425..700 => Op::Iter(slot, self.step()),
            700..705 => Op::IterDrop(slot),
            705..715 => Op::Snapshot(slot),
            715..722 => Op::Release(slot),
            722..800 => Op::Batch(two, self.act()),
            800..805 => Op::IndexNew(two, self.random.chance(50)),
            805..865 => Op::Index(two, self.act()),
            865..890 => Op::IndexGet(two, self.cf(), self.key()),
            890..915 => {
                let options = self.read_options();
                Op::IndexGetDb(two, self.cf(), self.key(), self.random.chance(50), options)
            }
            915..930 => {
                let mut options = self.walk_options();
                if self.set.prefixes {
                    // An iterator over a batch and its base need the same set of keys.
                    options.bits = (options.bits & !ro::PREFIX) | ro::TOTAL;
                }
                Op::IndexIter(slot, two, self.cf(), options, self.random.chance(50))
            }
            930..960 => Op::Property(self.cf(), self.property()),
            960..968 => Op::Sizes(self.cf(), self.key(), self.key()),
            968..974 => Op::Scan(self.cf(), self.walk_options()),
            974..976 => Op::Families,
            976..986 => Op::Updates(self.random.small(60)),
            _ => self.seldom(),
        }
    }

    /// An expensive operation.
    fn seldom(&mut self) -> Op {
        match self.random.below(100) {
            0..16 => Op::Flush(self.cf()),
            16..20 => Op::FlushAll,
            20..30 => self.compact(),
            30..34 => Op::Settle,
            34..46 => {
                // The libraries flush small memtables at different times.
                let first = if self.set.still { 2 } else { 0 };
                let row = first + self.random.index(CHANGES.len() - first);
                Op::SetOptions(self.cf(), row)
            }
            46..66 => Op::CreateFamily(self.random.index(SLOTS)),
            // After the commit of a transaction with a record of a dropped family, RocksDB rejects all writes.
            66..72 if self.set.transactions != Transactions::Pessimistic => {
                Op::DropFamily(1 + self.random.index(SLOTS - 1))
            }
            72..76 => Op::Reopen,
            76..78 if self.set.transactions == Transactions::None => {
                self.reopen_in = Some(10 + self.random.below(60));
                Op::ReadOnly
            }
            // With `allow_2pc`, RocksDB's checkpoint flushes in any case.
            78..80 => match self.set.transactions {
                Transactions::Pessimistic => Op::Checkpoint(0),
                _ => Op::Checkpoint(self.random.small(2)),
            },
            80..90 => self.ingest(),
            _ => self.get(),
        }
    }

    fn cf(&mut self) -> Cf {
        match self.random.below(10) {
            0..6 => 0,
            6..8 => 1,
            8 => 2,
            _ => 3,
        }
    }

    fn key(&mut self) -> Key {
        match self.random.below(100) {
            // Prefix filters and hash indexes give undefined results for keys without a prefix.
            0..3 if self.set.prefixes => ORDINARY + 4 + self.random.small(3),
            0..3 => ORDINARY + self.random.small(7),
            3..5 => SINGLES + self.random.small(SINGLES_COUNT),
            // Some keys are more frequent than others.
            5..40 => self.random.small(64),
            _ => self.random.small(ORDINARY),
        }
    }

    fn plain_key(&mut self) -> Key {
        loop {
            let key = self.key();
            if key < SINGLES {
                return key;
            }
        }
    }

    fn val(&mut self) -> Val {
        self.stamp = self.stamp.wrapping_add(1);
        let length = match self.random.below(100) {
            0..2 => 0,
            2..80 => 1 + self.random.small(40),
            80..98 => 20 + self.random.small(200),
            _ => 500 + self.random.small(5000),
        };
        Val(self.stamp, length)
    }

    fn change(&mut self) -> Change {
        let cf = self.cf();
        match self.random.below(100) {
            0..60 => Change::Put(cf, self.plain_key(), self.val()),
            60..76 if self.set.merges => Change::Merge(cf, self.plain_key(), self.val()),
            60..88 => Change::Delete(cf, self.plain_key()),
            // A value that the filter removes becomes a deletion, which a single deletion must not
            // meet.
            88..96 if self.set.callback == Callback::Filter => Change::Delete(cf, self.plain_key()),
            88..92 => Change::Put(cf, SINGLES + self.random.small(SINGLES_COUNT), self.val()),
            92..96 => Change::Single(cf, SINGLES + self.random.small(SINGLES_COUNT)),
            _ if !self.ranges => Change::Delete(cf, self.plain_key()),
            _ => {
                let (a, b) = self.range();
                Change::Range(cf, a, b)
            }
        }
    }

    /// Two keys; rarely a wide range.
    fn range(&mut self) -> (Key, Key) {
        let a = self.plain_key();
        let b = if self.random.chance(90) {
            // RocksDB counts an empty range as a write when it is written, and not when it is
            // recovered.
            a.saturating_add(1 + self.random.small(20))
        } else {
            self.key()
        };
        let b = if a == b { a + 1 } else { b };
        let (low, high) = (super::ops::key(a), super::ops::key(b));
        let forward = self.set.callback != Callback::Reverse;
        if (low <= high) == forward {
            (a, b)
        } else {
            (b, a)
        }
    }

    fn write(&mut self) -> Op {
        let without_log = self.set.no_log && self.random.chance(50);
        Op::Write(self.change(), without_log)
    }

    fn read_options(&mut self) -> Ro {
        let mut options = Ro::default();
        if self.random.chance(70) {
            return options;
        }
        if self.random.chance(50) {
            options.snapshot = Some(self.random.index(SLOTS));
        }
        // Which reads need no file is deterministic only without background work.
        if self.set.still && self.random.chance(20) {
            options.tier = if self.random.chance(50) { 3 } else { 2 };
        }
        // Compactions drop keys that range deletions hide.
        let kept = self.set.still && self.set.callback != Callback::Filter;
        if kept && self.random.chance(10) {
            options.bits |= ro::IGNORE_RANGES;
        }
        if self.random.chance(20) {
            options.bits |= ro::NO_FILL;
        }
        options
    }

    fn walk_options(&mut self) -> Ro {
        let mut options = self.read_options();
        if self.set.prefixes || self.random.chance(10) {
            options.bits |= if self.random.chance(50) {
                ro::TOTAL
            } else {
                ro::PREFIX
            };
        }
        for (percent, bit) in [
            (10, ro::PIN),
            (if self.tails { 10 } else { 0 }, ro::TAILING),
            (5, ro::ASYNC),
            (10, ro::AHEAD),
        ] {
            if self.random.chance(percent) {
                options.bits |= bit;
            }
        }
        if options.bits & ro::TAILING != 0 {
            // A tailing iterator has no snapshot, and RocksDB's ignores the tier.
            options.snapshot = None;
            options.tier = 0;
        }
        if self.random.chance(25) {
            options.lower = Some(self.key());
        }
        if self.random.chance(25) {
            options.upper = Some(self.key());
        }
        options
    }

    fn get(&mut self) -> Op {
        let how = match self.random.below(10) {
            0..4 => How::Get,
            4..7 => How::Pinned,
            7 => How::May,
            _ => How::Into(self.random.small(100)),
        };
        let options = self.read_options();
        Op::Get(self.cf(), self.key(), how, options)
    }

    fn multi(&mut self) -> Op {
        let count = 1 + self.random.index(12);
        let options = self.read_options();
        if self.random.chance(50) {
            let keys = (0..count).map(|_| (self.cf(), self.key())).collect();
            return Op::MultiGet(keys, options);
        }
        let sorted = self.random.chance(40);
        let keys: Vec<Key> = (0..count).map(|_| self.key()).collect();
        Op::Batched(self.cf(), keys, sorted, options)
    }

    fn step(&mut self) -> Move {
        match self.random.below(100) {
            0..5 => Move::First,
            5..10 => Move::Last,
            10..25 => Move::Seek(self.key()),
            25..37 => Move::SeekForPrev(self.key()),
            37..67 => Move::Next(1 + u8::try_from(self.random.below(5)).unwrap_or(0)),
            67..97 => Move::Prev(1 + u8::try_from(self.random.below(5)).unwrap_or(0)),
            _ => Move::Refresh,
        }
    }

    /// An operation on a transaction, or a write beside it.
    fn transaction(&mut self, slot: usize) -> Op {
        let deed = match self.random.below(100) {
            0..10 => return Op::Begin(slot, self.random.chance(30)),
            10..14 => return Op::Locked(self.change()),
            14..16 => return Op::LockedBatch(self.random.index(2)),
            16..44 => Deed::Add(self.change()),
            44..54 => Deed::Get(self.cf(), self.key(), self.read_options()),
            54..64 => {
                // RocksDB ignores the snapshot of the read options, and the read tier in part.
                Deed::GetForUpdate(self.cf(), self.key(), self.random.chance(60), Ro::default())
            }
            64..69 => {
                let keys = (0..1 + self.random.index(6)).map(|_| (self.cf(), self.key()));
                let keys = keys.collect();
                Deed::MultiGet(keys, self.random.chance(50), Ro::default())
            }
            69..74 => {
                let mut options = self.walk_options();
                options.bits &= !ro::TAILING;
                Deed::Iter(self.random.index(SLOTS), self.cf(), options)
            }
            74..79 => Deed::Look,
            79..83 => Deed::Save,
            83..86 => Deed::RollbackToSave,
            86..88 => Deed::Name(self.random.small(6)),
            88..90 => Deed::Rebuild(self.random.index(2)),
            90..93 => Deed::Prepare,
            93..98 => Deed::Commit,
            _ => Deed::RollBack,
        };
        Op::Transact(slot, deed)
    }

    fn act(&mut self) -> Act {
        match self.random.below(100) {
            0..60 => Act::Add(self.change()),
            60..62 => Act::Note(self.val()),
            62..68 => Act::Save,
            68..74 => Act::Rollback,
            74..77 => Act::Pop,
            77..80 => Act::Clear,
            80..86 => Act::Look,
            86..92 => Act::Walk,
            _ => Act::Write,
        }
    }

    fn compact(&mut self) -> Op {
        // RocksDB considers what the range overlaps, so the tree gets another shape.
        let ranged = !self.set.still && self.random.chance(40);
        let range = ranged.then(|| self.range());
        // 0 skip, 1 if there is a filter, 2 force, 3 force optimized
        let bottom = u8::try_from(self.random.below(4)).unwrap_or(0);
        let target = self
            .random
            .chance(20)
            .then(|| u8::try_from(self.random.below(4)).unwrap_or(0));
        Op::Compact(self.cf(), range, bottom, target)
    }

    fn ingest(&mut self) -> Op {
        let cf = self.cf();
        let count = 1 + self.random.index(20);
        let mut keys: Vec<Key> = (0..count).map(|_| self.plain_key()).collect();
        keys.sort_by_key(|key| super::ops::key(*key));
        if !self.random.chance(5) {
            keys.dedup();
        }
        if (self.set.callback == Callback::Reverse) != self.random.chance(3) {
            keys.reverse();
        }
        let mut changes: Vec<Change> = Vec::new();
        for key in keys {
            let merges = self.set.merges;
            changes.push(match self.random.below(10) {
                0 => Change::Delete(cf, key),
                1 if merges => Change::Merge(cf, key, self.val()),
                _ => Change::Put(cf, key, self.val()),
            });
        }
        if self.ranges && self.random.chance(20) {
            let (a, b) = self.range();
            changes.push(Change::Range(cf, a, b));
        }
        // An ingestion with these options may fail, depending on the shape of the tree.
        let bits = if self.set.still {
            self.random.below(32)
        } else {
            self.random.below(4)
        };
        Op::Ingest(cf, changes, u8::try_from(bits).unwrap_or(0))
    }

    fn property(&mut self) -> usize {
        let (always, still) = (PROPERTIES.0.len(), PROPERTIES.1.len());
        let end = if self.set.still {
            always + still
        } else {
            always
        };
        self.random.index(end)
    }
}
