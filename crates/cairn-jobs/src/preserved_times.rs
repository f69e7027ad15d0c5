//! The write times that the tables of a job keep (`preserve_internal_time_seconds`): samples of sequence numbers and
//! times, and the sequence numbers of entries whose age may still matter.

use cairn_format::seqno_times::{MAX_SAMPLES, SeqnoTimes};
use cairn_platform::sync::Arc;
use cairn_types::{Result, SequenceNumber};

use crate::context::JobContext;
use crate::inputs::{InputRun, inputs};

/// The write times that a job preserves.
#[derive(Clone)]
pub(crate) struct PreservedTimes {
    /// The samples; empty if none are preserved.
    samples: Arc<SeqnoTimes>,
    /// Entries with larger sequence numbers keep them in the bottommost level. The maximum if none have to.
    pub(crate) zero_through: SequenceNumber,
    /// Entries with larger sequence numbers are too young for the last level. The maximum if none are.
    pub(crate) young_after: SequenceNumber,
}

impl PreservedTimes {
    /// Those of a flush, at the Unix time `now`: the samples of the database.
    pub(crate) fn of_flush(context: &JobContext, now: u64) -> PreservedTimes {
        PreservedTimes::new(context, now, SeqnoTimes::clone(&context.seqno_times))
    }

    /// Those of a compaction of `runs`, at the Unix time `now`: the samples of its inputs and those of the database. The
    /// samples of an input whose property is damaged count as absent, so that its entries look no older than they are.
    pub(crate) fn of_compaction(
        context: &JobContext,
        now: u64,
        runs: &[InputRun],
    ) -> Result<PreservedTimes> {
        if context.family.options.preserved_seconds() == 0 {
            return Ok(PreservedTimes::new(context, now, SeqnoTimes::default()));
        }
        let mut samples = context.seqno_times.samples().to_vec();
        for input in inputs(runs) {
            let table = input.table()?;
            if let Ok(times) = SeqnoTimes::decode(&table.properties().seqno_time_map) {
                samples.extend_from_slice(times.samples());
            }
        }
        Ok(PreservedTimes::new(context, now, SeqnoTimes::of(samples)))
    }

    fn new(context: &JobContext, now: u64, mut samples: SeqnoTimes) -> PreservedTimes {
        let span = context.family.options.preserved_seconds();
        if span == 0 {
            return PreservedTimes {
                samples: Arc::default(),
                zero_through: SequenceNumber::MAX,
                young_after: SequenceNumber::MAX,
            };
        }
        samples.forget_before(now, span);
        let zero_through = samples.seq_at(now.saturating_sub(span));
        let young_after = match context.family.options.preclude_last_level_data_seconds {
            0 => SequenceNumber::MAX,
            span => samples.seq_at(now.saturating_sub(span)),
        };
        debug_assert!(
            zero_through <= young_after,
            "the span of both is the longer"
        );
        samples.thin_to(MAX_SAMPLES);
        PreservedTimes {
            samples: Arc::new(samples),
            zero_through,
            young_after,
        }
    }

    /// The property of a table with entries from `smallest` to `largest`; empty if it has none.
    pub(crate) fn property(
        &self,
        (smallest, largest): (SequenceNumber, SequenceNumber),
    ) -> Vec<u8> {
        self.samples.for_table(smallest, largest).encode()
    }
}
