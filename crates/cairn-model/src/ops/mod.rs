//! Kinds of operations. Each module here is one: its line, how it comes about, what it does to
//! the model and to the engine, and what it checks. [`KINDS`] lists them; nothing else knows them.

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
    /// Its name. Workloads call it so.
    pub name: &'static str,
    /// The words that its lines begin with.
    pub words: &'static [&'static str],
    /// How often it is chosen, against the sum of all weights. Where a kind is switched off or
    /// has nothing to do, a write takes its place.
    pub weight: usize,
    /// The switch by which a seed leaves it out, which several kinds may share; `None` if it is
    /// always there.
    pub switch: Option<&'static str>,
    /// Reads a line that begins with one of the words.
    pub read: fn(Line<'_>) -> Result<Op>,
    /// Makes one up that is right in the present state, if there is one.
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

/// What an operation that succeeded promises.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Promise {
    /// Nothing.
    Nothing,
    /// All that was logged so far survives the process.
    Handed,
    /// All that was logged so far survives a power cut.
    Logged,
    /// All that these families hold survives a power cut, logged or not.
    Flushed(Vec<String>),
    /// Everything survives a power cut.
    Everything,
}

/// An operation of a script.
pub trait Operation: Debug + Send + Sync {
    /// Its line in a script, which [`Kind::read`] reads back.
    fn line(&self) -> String;

    /// What it does to the model. Also done where the script is generated, and where it is in
    /// doubt whether a failed operation was carried out.
    fn apply(&self, _model: &mut Model) {}

    /// True if it can have succeeded in this state; where several are possible, the others are out.
    fn fits(&self, _model: &Model) -> bool {
        true
    }

    /// Asks the engine and compares its answer with the model, to which the operation is applied
    /// *afterwards*. Errors of the engine are passed on with `?`; a wrong answer is
    /// [`Failure::wrong`], or comes from [`Runner::agree`].
    ///
    /// # Errors
    ///
    /// What the engine refused, or what is wrong.
    fn run(&self, runner: &mut Runner<'_>) -> std::result::Result<Promise, Failure>;

    /// The families whose memtables it writes to tables, and no others.
    fn flushes(&self) -> &[String] {
        &[]
    }

    /// The same operation with other options, if it opens the database with options of its own.
    fn with_options(&self, _change: &mut dyn FnMut(&mut OptionSet)) -> Option<Op> {
        None
    }
}
