//! Operations: values without any handle in them, so that any of them may be left out of a script.

/// A key by number; [`key`] has its bytes.
pub type Key = u16;
/// The number of a family: 0 is `default`.
pub type Cf = usize;
/// The number of an iterator, snapshot or batch.
pub type Slot = usize;

/// How many families, iterators, snapshots; batches are two of each kind.
pub const SLOTS: usize = 4;
/// The names of the families.
pub const NAMES: [&str; SLOTS] = ["default", "one", "two", "three"];
/// Keys below this are ordinary; a few odd ones follow, see [`key`].
pub const ORDINARY: Key = 512;
/// From here on keys are only ever put when absent, and deleted with a single delete.
pub const SINGLES: Key = 600;
/// How many of those there are.
pub const SINGLES_COUNT: Key = 40;

/// The bytes of a key. Ordinary ones have 16 prefixes of three bytes.
#[must_use]
pub fn key(number: Key) -> Vec<u8> {
    match number {
        0..ORDINARY => format!("p{:02}{:02}", number / 32, number % 32).into_bytes(),
        512 => Vec::new(),
        513 => vec![0],
        514 => vec![0xff; 4],
        515 => b"p0".to_vec(),
        516 => [b"p07".as_slice(), &[b'x'; 300]].concat(),
        517 => b"p05\0\0".to_vec(),
        518 => b"p05".to_vec(),
        _ => format!("s{number:03}").into_bytes(),
    }
}

/// A value: a number written again and again, to a length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Val(pub u16, pub u16);

impl Val {
    /// Its bytes.
    #[must_use]
    pub fn bytes(self) -> Vec<u8> {
        let text = format!("{:x}.", self.0);
        text.bytes().cycle().take(self.1.into()).collect()
    }
}

/// Read options that matter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ro {
    /// A snapshot.
    pub snapshot: Option<Slot>,
    /// `read_tier`.
    pub tier: u8,
    /// Iterators: where they end.
    pub lower: Option<Key>,
    /// As `lower`.
    pub upper: Option<Key>,
    /// Bits: 1 total order, 2 prefix same as start, 4 pin data, 8 tailing, 16 ignore range
    /// deletions, 32 do not fill the cache, 64 asynchronous, 128 readahead.
    pub bits: u8,
}

/// Flags of [`Ro::bits`].
pub mod ro {
    /// `total_order_seek`.
    pub const TOTAL: u8 = 1;
    /// `prefix_same_as_start`.
    pub const PREFIX: u8 = 2;
    /// `pin_data`.
    pub const PIN: u8 = 4;
    /// `tailing`.
    pub const TAILING: u8 = 8;
    /// `ignore_range_deletions`.
    pub const IGNORE_RANGES: u8 = 16;
    /// Not `fill_cache`.
    pub const NO_FILL: u8 = 32;
    /// `async_io`.
    pub const ASYNC: u8 = 64;
    /// `readahead_size`.
    pub const AHEAD: u8 = 128;
}

/// A change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Sets a key.
    Put(Cf, Key, Val),
    /// Adds an operand.
    Merge(Cf, Key, Val),
    /// Removes a key.
    Delete(Cf, Key),
    /// Removes a key that was put once.
    Single(Cf, Key),
    /// Removes a range; the keys in order of their bytes.
    Range(Cf, Key, Key),
}

/// What is done to a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Adds a change.
    Add(Change),
    /// Adds a note for the log.
    Note(Val),
    /// Sets a save point.
    Save,
    /// Goes back to the last save point.
    Rollback,
    /// Forgets the last save point.
    Pop,
    /// Empties it.
    Clear,
    /// Counts its records and compares its bytes.
    Look,
    /// Walks over its records.
    Walk,
    /// Writes it, and keeps it.
    Write,
}

/// How an iterator moves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Move {
    /// To the first key.
    First,
    /// To the last key.
    Last,
    /// To a key or after it.
    Seek(Key),
    /// To a key or before it.
    SeekForPrev(Key),
    /// So many steps forward.
    Next(u8),
    /// So many steps back.
    Prev(u8),
    /// To the newest state.
    Refresh,
}

/// How one key is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// A copy.
    Get,
    /// Pinned.
    Pinned,
    /// Into a place of so many bytes.
    Into(u16),
    /// Whether it may exist.
    May,
}

/// An operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// A change by itself; without the log if the flag says so.
    Write(Change, bool),
    /// Reads a key.
    Get(Cf, Key, How, Ro),
    /// Reads keys of any families.
    MultiGet(Vec<(Cf, Key)>, Ro),
    /// Reads keys of a family as one batch; sorted if the flag says so.
    Batched(Cf, Vec<Key>, bool, Ro),
    /// Makes an iterator.
    IterNew(Slot, Cf, Ro),
    /// Moves an iterator.
    Iter(Slot, Move),
    /// Ends an iterator.
    IterDrop(Slot),
    /// Takes a snapshot.
    Snapshot(Slot),
    /// Gives it back.
    Release(Slot),
    /// A batch.
    Batch(Slot, Act),
    /// Makes a batch with index anew; with or without overwriting.
    IndexNew(Slot, bool),
    /// A batch with index.
    Index(Slot, Act),
    /// Reads a key of a batch with index alone.
    IndexGet(Slot, Cf, Key),
    /// Reads a key of a batch with index over the database, pinned or copied.
    IndexGetDb(Slot, Cf, Key, bool, Ro),
    /// An iterator (second slot) over a batch with index and the database; with the read options
    /// for both, or for the base only.
    IndexIter(Slot, Slot, Cf, Ro, bool),
    /// Flushes a family.
    Flush(Cf),
    /// Flushes all families.
    FlushAll,
    /// Compacts a range of a family; `bottommost_level_compaction`; the target level.
    Compact(Cf, Option<(Key, Key)>, u8, Option<u8>),
    /// Waits until no compaction is left.
    Settle,
    /// Sets options by the number of a row of [`CHANGES`].
    SetOptions(Cf, usize),
    /// Makes a family.
    CreateFamily(Cf),
    /// Drops a family.
    DropFamily(Cf),
    /// Closes and opens.
    Reopen,
    /// Closes and opens for reading.
    ReadOnly,
    /// Makes a checkpoint, opens it, and compares its content.
    Checkpoint(u16),
    /// Writes a table and ingests it. The bits are options of the ingestion.
    Ingest(Cf, Vec<Change>, u8),
    /// Compares a property by the number of a row of [`PROPERTIES`].
    Property(Cf, usize),
    /// Approximate sizes.
    Sizes(Cf, Key, Key),
    /// The log from so many sequence numbers before the last.
    Updates(u16),
    /// Everything in a family.
    Scan(Cf, Ro),
    /// The names and numbers of the families.
    Families,
}

/// Changes of options: good ones, unknown names, bad values.
pub const CHANGES: [&[(&str, &str)]; 14] = [
    &[("write_buffer_size", "32768")],
    &[
        ("write_buffer_size", "65536"),
        ("max_write_buffer_number", "3"),
    ],
    &[("target_file_size_base", "40000")],
    &[("max_bytes_for_level_base", "90000")],
    &[("level0_file_num_compaction_trigger", "3")],
    &[("paranoid_file_checks", "true")],
    &[("no_such_option", "1")],
    &[("write_buffer_size", "many")],
    &[("num_levels", "3")],
    &[("compression", "kLZ4Compression")],
    &[("block_based_table_factory", "{block_size=700}")],
    &[("max_sequential_skip_in_iterations", "1")],
    &[("block_based_table_factory", "{no_such=700}")],
    &[("disable_auto_compactions", "perhaps")],
];

/// Properties whose values are determined; from the second number on only when the tree stands still.
pub const PROPERTIES: ([&str; 9], [&str; 5]) = (
    [
        "rocksdb.num-snapshots",
        "rocksdb.oldest-snapshot-sequence",
        "rocksdb.is-file-deletions-enabled",
        "rocksdb.background-errors",
        "rocksdb.is-write-stopped",
        "rocksdb.no-such-property",
        "rocksdb.num-files-at-level99",
        "rocksdb.actual-delayed-write-rate",
        "rocksdb.block-cache-no-such",
    ],
    [
        "rocksdb.num-immutable-mem-table",
        "rocksdb.num-entries-active-mem-table",
        "rocksdb.num-deletes-active-mem-table",
        "rocksdb.num-entries-imm-mem-tables",
        "rocksdb.num-files-at-level0",
    ],
);
