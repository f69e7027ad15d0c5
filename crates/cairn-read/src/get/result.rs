//! The result of a finished lookup.

use cairn_observe::perf::{self, PerfMetric};
use cairn_observe::statistics::Histogram;
use cairn_types::{MergeResult, Result};

use super::{Found, PointGet};
use crate::merge_operands::{Below, MergedForRead, full_merge_for_read};
use crate::operands::OnOperand;
use crate::value::{Value, mergeable};
use crate::versions::Newest;

impl<H: OnOperand> PointGet<'_, H> {
    /// Returns the result of the lookup, which must not be used afterwards.
    #[inline]
    pub(crate) fn finish(&mut self) -> Result<Found> {
        if self.versions.operands.is_none() && !self.view.family.dated {
            match std::mem::replace(&mut self.versions.newest, Newest::Missing) {
                Newest::Missing => return Ok(Found::Missing),
                Newest::Value(value) => return Ok(Found::Value(value)),
                other => self.versions.newest = other,
            }
        }
        self.finish_general()
    }

    fn finish_general(&mut self) -> Result<Found> {
        let stored = self.stored()?;
        let dated = self.view.family.dated;
        let Some(mut operands) = self.versions.operands.take() else {
            return match stored {
                Found::Value(value) if dated => value.strip_ttl().map(Found::Value),
                stored => Ok(stored),
            };
        };
        let below = match &stored {
            Found::Missing => Below::Nothing,
            Found::Value(value) => Below::Value(mergeable(value, dated)?),
            Found::Entity(entity) => Below::Entity(entity),
        };
        operands.with_slices(dated, |operands| {
            let count = operands.len() as u64;
            perf::count(|perf| perf.add(PerfMetric::InternalMergePointLookupCount, count));
            if let Some(statistics) = &self.view.family.statistics {
                statistics.record(Histogram::ReadNumMergeOperands, count);
            }
            let merged = full_merge_for_read(&self.view.family, self.key(), below, operands)?;
            let threshold = self.read_options.merge_operand_count_threshold;
            let too_many = threshold.is_some_and(|threshold| count > threshold);
            Ok(match merged {
                MergedForRead::Value(value) => Found::Value(Value::merged(value, too_many)),
                MergedForRead::Entity(entity) => {
                    Found::Entity(Value::merged(MergeResult::Owned(entity), too_many))
                }
            })
        })
    }

    /// The user key, with the timestamp of the newest version.
    pub(super) fn key(&self) -> &[u8] {
        match self.versions.has_timestamps {
            true => self.versions.key(),
            false => self.lookup.user(),
        }
    }

    /// The user key of the newest version that is not an operand.
    pub(super) fn base_key(&self) -> &[u8] {
        match self.versions.has_timestamps {
            true => self.versions.base_key(),
            false => self.lookup.user(),
        }
    }

    /// The newest version that is not an operand, including its TTL timestamp, with blobs read.
    pub(super) fn stored(&mut self) -> Result<Found> {
        let mut requests = Vec::new();
        if let Some(mut blobs) = self.blob_reads(&mut requests)? {
            while !requests.is_empty() {
                let (deadline, view) = (self.read_deadline(), self.view);
                let wanted = std::mem::take(&mut requests);
                let results = wanted
                    .iter()
                    .map(|request| deadline.read(&view.family, request));
                self.supply_blobs(&mut blobs, results, &mut requests)?;
            }
        }
        Ok(
            match std::mem::replace(&mut self.versions.newest, Newest::Missing) {
                Newest::Missing | Newest::Blob(_) => Found::Missing,
                Newest::Value(value) => Found::Value(value),
                Newest::Entity(entity) => Found::Entity(entity),
            },
        )
    }
}
