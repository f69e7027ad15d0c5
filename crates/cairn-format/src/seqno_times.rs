//! Samples of sequence numbers and times (`rocksdb.seqno.time.map`), from which the age of an entry is estimated.
//!
//! ```text
//! varint64 count, then for each sample: varint64 sequence number, varint64 Unix time
//! ```
//!
//! Numbers and times are stored as differences to the sample before, the first to zero. An empty map is an absent property.
//!
//! A sample states that at its time, the sequence numbers up to its own were assigned: entries with those numbers are at
//! least as old.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use cairn_types::{Decoded, Malformed, SequenceNumber};

use crate::coding::{Input, put_varint64};

/// The maximum number of samples in a table.
pub const MAX_IN_TABLE: usize = 100;

/// The maximum number of samples that a database keeps.
pub const MAX_SAMPLES: usize = 10 * MAX_IN_TABLE;

/// A sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sample {
    /// A sequence number that was assigned at the time, as were all smaller ones.
    pub seq: u64,
    /// The Unix time in seconds.
    pub time: u64,
}

/// Samples whose numbers and times both ascend.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeqnoTimes(Vec<Sample>);

impl SeqnoTimes {
    /// The map of `samples`, in any order. Of samples that contradict each other, the earlier time counts; of samples of
    /// the same time, the largest number. Samples of sequence number 0 are left out.
    #[must_use]
    pub fn of(mut samples: Vec<Sample>) -> SeqnoTimes {
        samples.retain(|sample| sample.seq > 0);
        samples.sort_unstable();
        let mut kept: Vec<Sample> = Vec::with_capacity(samples.len());
        for sample in samples {
            // Of the same number, the first has the earliest time.
            if kept.last().is_some_and(|last| last.seq == sample.seq) {
                continue;
            }
            while kept.last().is_some_and(|last| last.time >= sample.time) {
                kept.pop();
            }
            kept.push(sample);
        }
        SeqnoTimes(kept)
    }

    /// Decodes the property; an empty one is an empty map.
    ///
    /// # Errors
    ///
    /// `Malformed` if it is cut short or has bytes after its end, if a number or time exceeds 64 bits, and if the samples do
    /// not ascend.
    pub fn decode(bytes: &[u8]) -> Decoded<SeqnoTimes> {
        let mut input = Input::new(bytes);
        if bytes.is_empty() {
            return Ok(SeqnoTimes::default());
        }
        let count = input.varint64()?;
        // A sample has two bytes at least.
        let most = bytes.len() / 2;
        let mut samples = Vec::with_capacity(usize::try_from(count).unwrap_or(most).min(most));
        let mut last = Sample { seq: 0, time: 0 };
        for _ in 0..count {
            let at = input.at();
            let (seq, time) = (input.varint64()?, input.varint64()?);
            let too_large =
                || Malformed::at(at, "a sample of sequence numbers and times exceeds 64 bits");
            let next = Sample {
                seq: last.seq.checked_add(seq).ok_or_else(too_large)?,
                time: last.time.checked_add(time).ok_or_else(too_large)?,
            };
            samples.push(next);
            last = next;
        }
        match input.is_empty() {
            true => Ok(SeqnoTimes::of(samples)),
            false => Err(Malformed::at(
                input.at(),
                "bytes after the samples of sequence numbers and times",
            )),
        }
    }

    /// The encoded property; empty if there are no samples.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        if self.0.is_empty() {
            return out;
        }
        put_varint64(&mut out, self.0.len() as u64);
        let mut last = Sample { seq: 0, time: 0 };
        for sample in &self.0 {
            put_varint64(&mut out, sample.seq - last.seq);
            put_varint64(&mut out, sample.time - last.time);
            last = *sample;
        }
        out
    }

    /// The samples, ascending.
    #[must_use]
    pub fn samples(&self) -> &[Sample] {
        &self.0
    }

    /// True if there are no samples.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The largest sequence number known to be assigned at `time`; 0 if none is known.
    #[must_use]
    pub fn seq_at(&self, time: u64) -> SequenceNumber {
        let after = self.0.partition_point(|sample| sample.time <= time);
        let last = after.checked_sub(1).and_then(|at| self.0.get(at));
        SequenceNumber(last.map_or(0, |sample| sample.seq))
    }

    /// The latest time known to precede the write of the entry `seq`; 0 if none is known.
    #[must_use]
    pub fn time_before(&self, seq: SequenceNumber) -> u64 {
        let after = self.0.partition_point(|sample| sample.seq < seq.0);
        let last = after.checked_sub(1).and_then(|at| self.0.get(at));
        last.map_or(0, |sample| sample.time)
    }

    /// Adds a sample that is no older than the others. One whose number is known is dropped, and one with the time of the
    /// last sample, or an earlier one, replaces it.
    pub fn add(&mut self, sample: Sample) {
        if sample.seq == 0 || self.0.last().is_some_and(|last| last.seq >= sample.seq) {
            return;
        }
        while self.0.last().is_some_and(|last| last.time >= sample.time) {
            self.0.pop();
        }
        self.0.push(sample);
    }

    /// Removes samples that no question about the `span` seconds before `now` needs: all before `now - span` but the last.
    pub fn forget_before(&mut self, now: u64, span: u64) {
        let cutoff = now.saturating_sub(span);
        let old = self.0.partition_point(|sample| sample.time <= cutoff);
        self.0.drain(..old.saturating_sub(1));
    }

    /// Removes samples until `most` (at least 2) are left: each time the one whose neighbours are closest in time, so that
    /// the rest is spread evenly. The first and the last one stay.
    pub fn thin_to(&mut self, most: usize) {
        let count = self.0.len();
        let Some(mut surplus) = count.checked_sub(most.max(2)).filter(|&more| more > 0) else {
            return;
        };
        // The neighbours of each sample that are left.
        let mut before: Vec<usize> = (0..count).map(|at| at.saturating_sub(1)).collect();
        let mut after: Vec<usize> = (1..=count).collect();
        let mut is_left = vec![true; count];
        let gap = |before: usize, after: usize| self.0[after].time - self.0[before].time;
        let mut closest: BinaryHeap<_> = (1..count - 1)
            .map(|at| Reverse((gap(at - 1, at + 1), at)))
            .collect();
        while surplus > 0 {
            let Reverse((known, at)) = closest.pop().expect("more than two samples are left");
            let now = gap(before[at], after[at]);
            if now != known {
                // A neighbour was removed, which made the gap larger.
                closest.push(Reverse((now, at)));
                continue;
            }
            is_left[at] = false;
            after[before[at]] = after[at];
            before[after[at]] = before[at];
            surplus -= 1;
        }
        let mut is_left = is_left.into_iter();
        self.0.retain(|_| is_left.next().unwrap_or(true));
    }

    /// The samples for a table of entries from `smallest` to `largest`: those in the range, the last one before it, and the
    /// first one after it, which limits the age of the newest entries and gets the number of the last of them.
    #[must_use]
    pub fn for_table(&self, smallest: SequenceNumber, largest: SequenceNumber) -> SeqnoTimes {
        let first = self.0.partition_point(|sample| sample.seq < smallest.0);
        let end = self.0.partition_point(|sample| sample.seq <= largest.0);
        let range = first.saturating_sub(1)..end;
        let mut found = SeqnoTimes(self.0.get(range).unwrap_or_default().to_vec());
        if let Some(next) = self.0.get(end) {
            found.add(Sample {
                seq: largest.0,
                time: next.time,
            });
        }
        found.thin_to(MAX_IN_TABLE);
        found
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn map(samples: &[(u64, u64)]) -> SeqnoTimes {
        let samples = samples.iter().map(|&(seq, time)| Sample { seq, time });
        SeqnoTimes::of(samples.collect())
    }

    fn pairs(map: &SeqnoTimes) -> Vec<(u64, u64)> {
        let samples = map.samples().iter();
        samples.map(|sample| (sample.seq, sample.time)).collect()
    }

    #[test]
    fn times_and_numbers_are_looked_up() {
        let map = map(&[(10, 500), (20, 600), (30, 700)]);
        let times = [
            (10, 0),
            (11, 500),
            (20, 500),
            (21, 600),
            (31, 700),
            (1000, 700),
        ];
        for (seq, time) in times {
            assert_eq!(map.time_before(SequenceNumber(seq)), time, "{seq}");
        }
        for (time, seq) in [(499, 0), (500, 10), (599, 10), (600, 20), (9999, 30)] {
            assert_eq!(map.seq_at(time), SequenceNumber(seq), "{time}");
        }
    }

    #[test]
    fn contradictions_are_resolved() {
        let merged = map(&[
            (30, 500),
            (10, 700),
            (20, 600),
            (20, 650),
            (40, 500),
            (0, 1),
        ]);
        assert_eq!(pairs(&merged), [(40, 500)]);
        assert_eq!(pairs(&map(&[(7, 9), (7, 4), (9, 10)])), [(7, 4), (9, 10)]);
        let mut added = map(&[(10, 500)]);
        added.add(Sample { seq: 10, time: 600 });
        added.add(Sample { seq: 12, time: 500 });
        added.add(Sample { seq: 15, time: 650 });
        added.add(Sample { seq: 20, time: 640 });
        assert_eq!(pairs(&added), [(12, 500), (20, 640)]);
    }

    #[test]
    fn old_and_close_samples_are_removed() {
        let mut times = map(&[(1, 100), (2, 200), (3, 300), (4, 310), (5, 400)]);
        times.forget_before(450, 250);
        assert_eq!(pairs(&times)[0], (2, 200));
        times.thin_to(3);
        assert_eq!(pairs(&times), [(2, 200), (3, 300), (5, 400)]);
        times.thin_to(0);
        assert_eq!(pairs(&times), [(2, 200), (5, 400)]);
    }

    #[test]
    fn a_table_has_the_samples_of_its_entries() {
        let times = map(&[(10, 500), (20, 600), (30, 700), (40, 800)]);
        let table = times.for_table(SequenceNumber(21), SequenceNumber(30));
        assert_eq!(pairs(&table), [(20, 600), (30, 700)]);
        // Entry 35 was assigned by the time of the sample 40.
        let newer = times.for_table(SequenceNumber(31), SequenceNumber(35));
        assert_eq!(pairs(&newer), [(30, 700), (35, 800)]);
        let older = times.for_table(SequenceNumber(1), SequenceNumber(9));
        assert_eq!(pairs(&older), [(9, 500)]);
        let last = times.for_table(SequenceNumber(50), SequenceNumber(60));
        assert_eq!(pairs(&last), [(40, 800)]);
        let zeroed = times.for_table(SequenceNumber(0), SequenceNumber(0));
        assert!(zeroed.is_empty());
    }

    /// The bytes of RocksDB for 10 -> 500, 20 -> 600, 30 -> 700.
    #[test]
    fn the_encoding_is_that_of_the_property() {
        let times = map(&[(10, 500), (20, 600), (30, 700)]);
        let bytes = [3, 10, 0xf4, 3, 10, 100, 10, 100];
        assert_eq!(times.encode(), bytes);
        assert_eq!(SeqnoTimes::decode(&bytes).unwrap(), times);
        assert!(SeqnoTimes::default().encode().is_empty());
        for broken in [
            &bytes[..7],
            &[1][..],
            &[0, 0],
            &[200, 1, 1, 1],
            &[2, 1, 1, 255],
        ] {
            assert!(SeqnoTimes::decode(broken).is_err(), "{broken:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_decode_to_an_ascending_map_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(map) = SeqnoTimes::decode(&bytes) {
                let ascends = |pair: &[Sample]| pair[0].seq < pair[1].seq && pair[0].time < pair[1].time;
                prop_assert!(map.samples().windows(2).all(ascends));
                prop_assert_eq!(&SeqnoTimes::decode(&map.encode()).unwrap(), &map);
            }
        }

        #[test]
        fn lookups_agree_with_a_search_of_all_samples(
            samples in prop::collection::vec((1_u64..50, 0_u64..50), 0..30),
            at in 0_u64..60,
            most in 0_usize..10,
        ) {
            let whole = map(&samples);
            let seq = pairs(&whole).iter().filter(|sample| sample.1 <= at).map(|sample| sample.0).max();
            prop_assert_eq!(whole.seq_at(at), SequenceNumber(seq.unwrap_or(0)));
            let time = pairs(&whole).iter().filter(|sample| sample.0 < at).map(|sample| sample.1).max();
            prop_assert_eq!(whole.time_before(SequenceNumber(at)), time.unwrap_or(0));
            // A thinner map makes entries look no older than they are.
            let mut thin = whole.clone();
            thin.thin_to(most);
            prop_assert!(thin.seq_at(at) <= whole.seq_at(at));
            prop_assert!(thin.time_before(SequenceNumber(at)) <= whole.time_before(SequenceNumber(at)));
            let mut short = whole.clone();
            short.forget_before(at, 10);
            for time in at.saturating_sub(10)..=at {
                prop_assert_eq!(short.seq_at(time), whole.seq_at(time));
            }
        }
    }
}
