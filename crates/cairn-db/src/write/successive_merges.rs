//! Successive merges: operands that accumulate on one key are merged when they are written.
//!
//! With `max_successive_merges`, an operand on top of that many others of its key in the memtable is merged
//! with the entries below, and the result is inserted instead. The log keeps the operand. If the merge is not
//! possible (an entry is in a file that may not be read, or the operator fails), the operand is inserted
//! unchanged, and a later read or compaction merges it.
//!
//! The insertion must see every earlier write, so the leader inserts batches sequentially
//! ([`Shared::inserts_in_turn`]).

use std::ops::ControlFlow;

use cairn_format::dated;
use cairn_format::key::LookupKey;
use cairn_memtable::Memtable;
use cairn_options::{FamilyOptions, ReadOptions, ReadTier};
use cairn_read::merge_operands::{Below, Merged, full_merge};
use cairn_read::{Found, get};
use cairn_types::{SequenceNumber, ValueKind};

use crate::catalog::family::FamilyState;
use crate::shared::Shared;

impl Shared {
    /// True if batches must be inserted sequentially.
    #[inline]
    pub(crate) fn inserts_in_turn(&self) -> bool {
        // Relaxed: an option that is read late takes effect late.
        self.signals.may_merge_early() && self.merges_early()
    }

    #[cold]
    fn merges_early(&self) -> bool {
        let families = self.catalog.families();
        families
            .iter()
            .any(|family| family.options().max_successive_merges > 0)
    }
}

/// Returns the entry to insert instead of `operand`, which is about to get `seq`, if it is merged: a kind and
/// a value.
pub(crate) fn merge_on_write(
    family: &FamilyState,
    memtable: &Memtable,
    key: &[u8],
    operand: &[u8],
    seq: SequenceNumber,
) -> Option<(ValueKind, Vec<u8>)> {
    let options = family.options();
    if options.max_successive_merges == 0 || options.comparator.timestamp_size() > 0 {
        return None;
    }
    let before = LookupKey::new(key, SequenceNumber(seq.0.checked_sub(1)?));
    if !are_many(memtable, &before, &options) {
        return None;
    }
    let reads = ReadOptions {
        read_tier: match options.strict_max_successive_merges {
            true => ReadTier::All,
            false => ReadTier::BlockCache,
        },
        ..ReadOptions::default()
    };
    let view = family.view();
    let dated = view.family.dated;
    // The read returns the value without its date.
    let operand = match dated {
        true => dated::split(operand).ok()?.0,
        false => operand,
    };
    let found = get(&view, &before, &reads).ok()?;
    let below = match &found {
        Found::Missing => return None,
        Found::Value(value) => Below::Value(value),
        Found::Entity(entity) => Below::Entity(entity),
    };
    match full_merge(&view.family, key, below, &[operand]).ok()? {
        Merged::Value(mut value) => {
            if dated {
                value.extend_from_slice(&dated::encode(view.family.clock.wall_seconds()));
            }
            Some((ValueKind::Value, value))
        }
        Merged::Entity(entity) => Some((ValueKind::WideColumnEntity, entity)),
    }
}

/// True if the key has as many operands on top as the option permits.
fn are_many(memtable: &Memtable, before: &LookupKey, options: &FamilyOptions) -> bool {
    let mut count = 0_u64;
    memtable.find(before, |entry| {
        if entry.kind() != ValueKind::Merge {
            return ControlFlow::Break(());
        }
        count += 1;
        match count < options.max_successive_merges {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    });
    count >= options.max_successive_merges
}
