//! Kinds of operations, one per module: its line, its generator, its effect on the model and the
//! engine, and its checks. [`KINDS`] lists them all.

use crate::operation::Kind;

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
pub mod replace_range;
pub mod restore;
pub mod run_background;
pub mod scan;
pub mod set_options;
pub mod snapshots;
pub mod staged_ingest;
pub mod switch_memtables;
pub mod sync_wal;
pub mod timestamps;
pub mod two_phase;
pub mod updates_since;
pub mod write;

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
    staged_ingest::KIND,
    replace_range::KIND,
    checkpoint::KIND,
    restore::KIND,
    set_options::KIND,
    manual_compaction::KIND,
    pause_background_work::KIND,
    delete_files::KIND,
    timestamps::KIND,
    two_phase::KIND,
];
