//! Kinds of operations, one per module: its line, its generator, its effect on the model and the
//! engine, and its checks. [`KINDS`] lists them all.

use std::fmt::Debug;

use cairn_types::Result;

use crate::generate::Generator;
use crate::line::Line;
use crate::model::Model;
use crate::options::OptionSet;
use crate::run::{Failure, Runner};
use crate::script::Op;

pub mod batch_entry;
pub mod batch_with_index;
pub mod blob_gc;
pub mod check;
pub mod checkpoint;
pub mod columns;
pub mod compact;
pub mod delete_files;
pub mod families;
pub mod flush;
pub mod flush_wal;
pub mod get;
pub mod ingest;
pub mod manual_compaction;
pub mod pause_background_work;
pub mod read_paths;
pub mod reopen;
pub mod restore;
pub mod run_background;
pub mod scan;
pub mod set_options;
pub mod snapshots;
pub mod switch_memtables;
pub mod sync_wal;
pub mod updates_since;
pub mod write;

/// A kind of operation.
pub struct Kind {
    /// Its name in workloads.
    pub name: &'static str,
    /// The words that start its lines.
    pub words: &'static [&'static str],
    /// Its weight, relative to the sum of all weights. A kind that is switched off or not applicable is
    /// replaced by a write.
    pub weight: usize,
    /// The switch by which a seed disables it, perhaps shared by several kinds; `None` if it is always
    /// enabled.
    pub switch: Option<&'static str>,
    /// Parses a line that starts with one of the words.
    pub read: fn(Line<'_>) -> Result<Op>,
    /// Generates an operation that is valid in the current state, if there is one.
    pub generate: fn(&mut Generator) -> Option<Op>,
}

/// All kinds.
pub const KINDS: &[Kind] = &[
    write::KIND,
    batch_with_index::KIND,
    get::KIND,
    scan::KIND,
    read_paths::KIND,
    snapshots::KIND,
    flush::KIND,
    switch_memtables::KIND,
    compact::KIND,
    blob_gc::KIND,
    columns::KIND,
    sync_wal::KIND,
    flush_wal::KIND,
    updates_since::KIND,
    families::KIND,
    reopen::KIND,
    check::KIND,
    run_background::KIND,
    ingest::KIND,
    checkpoint::KIND,
    restore::KIND,
    set_options::KIND,
    manual_compaction::KIND,
    pause_background_work::KIND,
    delete_files::KIND,
];

/// The durability guaranteed by a successful operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Promise {
    /// Nothing.
    Nothing,
    /// Everything logged so far survives a process crash.
    Handed,
    /// Everything logged so far survives a power failure.
    Logged,
    /// Everything in these families survives a power failure, logged or not.
    Flushed(Vec<String>),
    /// Everything survives a power failure.
    Everything,
}

/// An operation of a script.
pub trait Operation: Debug + Send + Sync {
    /// Returns its line in a script, which [`Kind::read`] parses.
    fn line(&self) -> String;

    /// Applies it to the model. Also called when the script is generated, and if it is unknown whether
    /// a failed operation took effect.
    fn apply(&self, _model: &mut Model) {}

    /// True if it can have succeeded in this state. Of several possible states, the others are
    /// excluded.
    fn fits(&self, _model: &Model) -> bool {
        true
    }

    /// Calls the engine and compares its answer with the model, to which the operation is applied
    /// *afterwards*. Errors of the engine are returned with `?`; a wrong answer is [`Failure::wrong`],
    /// or a result of [`Runner::agree`].
    ///
    /// # Errors
    ///
    /// The refusal of the engine, or the wrong answer.
    fn run(&self, runner: &mut Runner<'_>) -> std::result::Result<Promise, Failure>;

    /// Returns the families that it flushes individually.
    fn flushes(&self) -> &[String] {
        &[]
    }

    /// Returns the same operation with changed options, if it opens the database with options of its
    /// own.
    fn with_options(&self, _change: &mut dyn FnMut(&mut OptionSet)) -> Option<Op> {
        None
    }
}
