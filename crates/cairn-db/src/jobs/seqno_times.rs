//! Samples of the last sequence number and the time, which tell the age of entries while a family preserves write times
//! (`preserve_internal_time_seconds`). Flushes and compactions store those of their entries in the table.
//!
//! Samples are taken periodically, when a family starts to preserve write times, and by every job. They are not
//! persistent. When there are none, after an open in particular, the files of the tree supply the first ones: at the
//! creation time of a file, its sequence numbers were assigned.

use std::sync::Arc;

use cairn_format::seqno_times::{MAX_IN_TABLE, MAX_SAMPLES, Sample, SeqnoTimes};
use cairn_options::FamilyOptions;
use cairn_platform::sync::Mutex;

use crate::shared::Shared;

/// The periods for which the families of a database preserve write times, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spans {
    /// The shortest and the longest one; zero if there is none.
    shortest: u64,
    longest: u64,
}

impl Spans {
    fn of(spans: impl Iterator<Item = u64>) -> Spans {
        let spans = spans.filter(|span| *span > 0);
        spans.fold(Spans::default(), |found, span| Spans {
            shortest: match found.shortest {
                0 => span,
                shortest => shortest.min(span),
            },
            longest: found.longest.max(span),
        })
    }

    /// The seconds between two samples; 0 if none are taken.
    pub(crate) fn sampling_period(self) -> u64 {
        self.shortest.div_ceil(MAX_IN_TABLE as u64)
    }

    /// The number of samples to keep: one for each sampling period of the longest span.
    fn most_samples(self) -> usize {
        let most = (self.longest.saturating_mul(MAX_IN_TABLE as u64))
            .checked_div(self.shortest)
            .unwrap_or(0);
        usize::try_from(most)
            .unwrap_or(MAX_SAMPLES)
            .min(MAX_SAMPLES)
    }
}

/// The samples of a database.
#[derive(Default)]
pub(crate) struct Samples(Mutex<Arc<SeqnoTimes>>);

impl Samples {
    fn are_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// Adds those of `earlier`, in any order, if there are none, and then `sample`.
    fn add(&self, sample: Sample, spans: Spans, earlier: Vec<Sample>) {
        let mut samples = self.0.lock();
        let times = Arc::make_mut(&mut samples);
        if times.is_empty() {
            *times = SeqnoTimes::of(earlier);
        }
        times.add(sample);
        times.forget_before(sample.time, spans.longest);
        times.thin_to(spans.most_samples());
    }

    fn clear(&self) {
        *self.0.lock() = Arc::default();
    }

    /// Returns all samples.
    pub(crate) fn get(&self) -> Arc<SeqnoTimes> {
        self.0.lock().clone()
    }
}

impl Shared {
    /// The periods for which families preserve write times.
    pub(crate) fn preserved_spans(&self) -> Spans {
        let families = self.catalog.families();
        let spans = families
            .iter()
            .map(|family| family.options().preserved_seconds());
        Spans::of(spans)
    }

    /// Takes a sample, if a family preserves write times; otherwise forgets all samples.
    pub(crate) fn sample_seqno(&self) {
        let spans = self.preserved_spans();
        if spans == Spans::default() {
            return self.timers.samples.clear();
        }
        let earlier = match self.timers.samples.are_empty() {
            true => self.samples_of_files(),
            false => Vec::new(),
        };
        // The number is read first: it was assigned by the time.
        let sample = Sample {
            seq: self.published().0,
            time: self.context.world.clock.wall_seconds(),
        };
        self.timers.samples.add(sample, spans, earlier);
    }

    /// The largest sequence number and the creation time of each file.
    fn samples_of_files(&self) -> Vec<Sample> {
        let mut samples = Vec::new();
        for family in self.catalog.families().iter() {
            let version = family.view().version.clone();
            samples.extend(version.files().filter_map(|(_, file)| {
                let time = file.created();
                (time > 0).then_some(Sample {
                    seq: file.seqs.largest.0,
                    time,
                })
            }));
        }
        samples
    }

    /// Takes a sample and returns all of them, for a job of a family with `options`. There are none if it preserves no
    /// write times.
    pub(crate) fn seqno_times(&self, options: &FamilyOptions) -> Arc<SeqnoTimes> {
        if options.preserved_seconds() == 0 {
            return Arc::default();
        }
        self.sample_seqno();
        self.timers.samples.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_span_decides_how_often_and_the_longest_how_long() {
        let none = Spans::of([0, 0].into_iter());
        assert_eq!((none.sampling_period(), none.most_samples()), (0, 0));
        let one = Spans::of([0, 1000].into_iter());
        assert_eq!((one.sampling_period(), one.most_samples()), (10, 100));
        let two = Spans::of([1000, 30, 5000].into_iter());
        assert_eq!((two.sampling_period(), two.most_samples()), (1, 1000));
        let samples = Samples::default();
        for time in 0..1000 {
            let seq = time + 1;
            samples.add(Sample { seq, time }, one, Vec::new());
        }
        assert_eq!(samples.get().samples().len(), 100);
        let last = Sample {
            seq: 5000,
            time: 5000,
        };
        samples.add(last, one, Vec::new());
        assert_eq!(samples.get().samples().len(), 2, "the last old one is kept");
    }

    #[test]
    fn earlier_samples_are_added_only_to_none() {
        let spans = Spans::of([1000].into_iter());
        let samples = Samples::default();
        let earlier = vec![Sample { seq: 7, time: 70 }, Sample { seq: 3, time: 30 }];
        samples.add(Sample { seq: 9, time: 90 }, spans, earlier);
        samples.add(
            Sample { seq: 12, time: 120 },
            spans,
            vec![Sample { seq: 1, time: 1 }],
        );
        let found = samples.get();
        let seqs: Vec<u64> = found.samples().iter().map(|sample| sample.seq).collect();
        assert_eq!(seqs, [3, 7, 9, 12]);
    }
}
