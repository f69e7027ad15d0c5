//! Invokes the user's compaction filter for one entry at a time.
//!
//! The filter sees entries as a reader would: values in blob files are read first unless the filter
//! decides by key. Its decision is returned in terms of the bytes to write.

use std::cell::Cell;

use cairn_format::blob::RECORD_HEADER_LEN;
use cairn_format::wide::{self, Column, ColumnValue};
use cairn_observe::statistics::{Meter, Ticker};
use cairn_platform::Io;
use cairn_platform::sync::Arc;
use cairn_read::{BlobReadOptions, BlobSource};
use cairn_types::{
    CompactionFilter, Error, FilterContext, FilterDecision, FilterValue, Result, ValueKind,
};

use crate::blob_garbage;
use crate::context::JobContext;
use crate::stats::BlobsRead;
use crate::ttl;

/// The decision on an entry.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ruling {
    /// The entry is kept unchanged.
    Keep,
    /// The entry becomes a deletion; a merge operand is dropped.
    Remove,
    /// The entry gets this kind and value; a merge operand keeps its kind.
    Change(ValueKind, Vec<u8>),
    /// The entry and all entries of keys before this one are dropped.
    SkipUntil(Vec<u8>),
}

/// The compaction filter of one subcompaction.
pub struct Filter {
    filter: Arc<dyn CompactionFilter>,
    level: usize,
    /// Source of values in blob files.
    blobs: Option<(Arc<BlobSource>, Io)>,
    meter: Meter,
    /// Nanoseconds spent in the filter, if detailed timers are enabled.
    filtering: Cell<u64>,
    /// Blobs read for the filter.
    read: Cell<BlobsRead>,
}

impl Drop for Filter {
    fn drop(&mut self) {
        let filtering = self.filtering.get();
        if filtering > 0 {
            self.meter.add(Ticker::FilterOperationTotalTime, filtering);
        }
    }
}

impl Filter {
    /// Creates the filter of a subcompaction, if the options set one; `filter_context` is passed to its
    /// factory. A filter without a factory runs in compactions only.
    ///
    /// # Errors
    ///
    /// `NotSupported` if `ignore_snapshots` of the filter returns false.
    pub(crate) fn of_job(
        context: &JobContext,
        filter_context: &FilterContext,
    ) -> Result<Option<Filter>> {
        let options = &context.family.options;
        let compacts = filter_context.reason == cairn_types::TableFileCreationReason::Compaction;
        let single = options.compaction_filter.get().filter(|_| compacts);
        let filter = match (single, options.compaction_filter_factory.get()) {
            (Some(filter), _) => Some(filter.clone()),
            (None, Some(factory))
                if factory.should_filter_table_file_creation(filter_context.reason) =>
            {
                factory.create(filter_context)
            }
            (None, _) => None,
        };
        let filter = match compacts || filter.is_some() {
            true => ttl::filter(options, &context.world.clock, filter),
            false => None,
        };
        let Some(filter) = filter else {
            return Ok(None);
        };
        if !filter.ignore_snapshots() {
            return Err(Error::not_supported(format!(
                "compaction filter {}: ignore_snapshots() = false is not supported",
                filter.name()
            )));
        }
        Ok(Some(Filter {
            filter,
            level: filter_context.input_start_level.unwrap_or(0),
            blobs: Some((context.family.blobs.clone(), context.io.clone())),
            meter: context.meter.clone(),
            filtering: Cell::new(0),
            read: Cell::default(),
        }))
    }

    /// Wraps `filter`, for tests.
    #[cfg(test)]
    pub(crate) fn plain(filter: Arc<dyn CompactionFilter>, level: usize) -> Filter {
        Filter {
            filter,
            level,
            blobs: None,
            meter: Meter::default(),
            filtering: Cell::new(0),
            read: Cell::default(),
        }
    }

    /// Returns the blobs read for the filter.
    pub(crate) fn blobs_read(&self) -> BlobsRead {
        self.read.get()
    }

    /// Returns the decision on a value, blob or entity of `key` (with timestamp).
    pub(crate) fn rule(&self, key: &[u8], kind: ValueKind, value: &[u8]) -> Result<Ruling> {
        let began = self.meter.began_detail();
        let ruled = self.decide(key, kind, value);
        if let Some(nanos) = self.meter.nanos_since(began) {
            self.filtering.set(self.filtering.get() + nanos);
        }
        ruled
    }

    fn decide(&self, key: &[u8], kind: ValueKind, value: &[u8]) -> Result<Ruling> {
        let decision = match kind {
            ValueKind::BlobIndex => match self.filter.filter_blob_by_key(self.level, key) {
                Some(decision) => decision,
                None => {
                    let value = self.read_blob(value, key)?;
                    self.ask(key, FilterValue::Value(&value))
                }
            },
            ValueKind::WideColumnEntity => self.ask_of_entity(key, value)?,
            _ => self.ask(key, FilterValue::Value(value)),
        };
        ruling(decision)
    }

    /// Returns the decision on a merge operand.
    pub(crate) fn rule_operand(&self, key: &[u8], operand: &[u8]) -> Result<Ruling> {
        match self.ask(key, FilterValue::MergeOperand(operand)) {
            FilterDecision::ChangeEntity(_) => Ok(Ruling::Keep),
            decision => ruling(decision),
        }
    }

    fn ask(&self, key: &[u8], value: FilterValue<'_>) -> FilterDecision {
        self.filter.filter(self.level, key, value)
    }

    fn ask_of_entity(&self, key: &[u8], entity: &[u8]) -> Result<FilterDecision> {
        let entity = wide::decode(entity).map_err(|e| e.in_file("a wide-column entity", 0))?;
        let mut blobs = Vec::new();
        for column in entity.columns() {
            if let ColumnValue::Blob(index) = column.value {
                blobs.push(self.read_blob(index, key)?);
            }
        }
        let mut blobs = blobs.iter();
        let columns: Vec<(&[u8], &[u8])> = entity
            .columns()
            .map(|column| match column.value {
                ColumnValue::Inline(value) => (column.name, value),
                ColumnValue::Blob(_) => (column.name, blobs.next().map_or(&[][..], |v| &v[..])),
            })
            .collect();
        Ok(self.ask(key, FilterValue::Entity(&columns)))
    }

    fn read_blob(&self, index: &[u8], key: &[u8]) -> Result<Vec<u8>> {
        let (blobs, io) = self.blobs.as_ref().ok_or_else(|| {
            Error::not_supported("a compaction filter that needs values in blob files, in a job that does not read blobs")
        })?;
        // The blob files may become obsolete: do not cache their blobs.
        let options = BlobReadOptions {
            fill_cache: false,
            ..BlobReadOptions::default()
        };
        let value = blobs.read(index, key, io, options)?.to_vec();
        if let Some((_, stored)) = blob_garbage::blob_of(index)? {
            let mut read = self.read.get();
            read.count((RECORD_HEADER_LEN + key.len()) as u64 + stored);
            self.read.set(read);
        }
        Ok(value)
    }
}

fn ruling(decision: FilterDecision) -> Result<Ruling> {
    Ok(match decision {
        FilterDecision::Keep => Ruling::Keep,
        FilterDecision::Remove => Ruling::Remove,
        FilterDecision::ChangeValue(value) => Ruling::Change(ValueKind::Value, value),
        FilterDecision::ChangeEntity(mut columns) => {
            columns.sort();
            let columns: Vec<Column<'_>> = columns
                .iter()
                .map(|(name, value)| Column {
                    name,
                    value: ColumnValue::Inline(value),
                })
                .collect();
            let mut entity = Vec::new();
            wide::encode(&columns, &mut entity)?;
            Ruling::Change(ValueKind::WideColumnEntity, entity)
        }
        FilterDecision::RemoveAndSkipUntil(key) => Ruling::SkipUntil(key),
    })
}
