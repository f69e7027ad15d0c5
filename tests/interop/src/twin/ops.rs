//! Operations: values without handles, so that any of them can be left out of a script.

/// A key number; [`key`] returns the bytes.
pub type Key = u16;
/// The number of a family: 0 is `default`.
pub type Cf = usize;
/// The index of an iterator, snapshot or batch.
pub type Slot = usize;

/// The number of families, iterators and snapshots; there are two batches of each kind.
pub const SLOTS: usize = 4;
/// The names of the families.
pub const NAMES: [&str; SLOTS] = ["default", "one", "two", "three"];
/// Keys below this are ordinary; a few unusual ones follow, see [`key`].
pub const ORDINARY: Key = 512;
/// Keys from here on are put only when absent, and deleted only by single deletions.
pub const SINGLES: Key = 600;
/// The number of those keys.
pub const SINGLES_COUNT: Key = 40;

/// The bytes of a key. Ordinary keys have 16 prefixes of three bytes.
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

/// A value: a number that is repeated up to a length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Val(pub u16, pub u16);

impl Val {
    /// The bytes.
    #[must_use]
    pub fn bytes(self) -> Vec<u8> {
        let text = format!("{:x}.", self.0);
        text.bytes().cycle().take(self.1.into()).collect()
    }
}

/// Read options.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ro {
    /// A snapshot.
    pub snapshot: Option<Slot>,
    /// `read_tier`.
    pub tier: u8,
    /// The lower bound of iterators.
    pub lower: Option<Key>,
    /// The upper bound of iterators.
    pub upper: Option<Key>,
    /// Flags: 1 total order, 2 prefix same as start, 4 pin data, 8 tailing, 16 ignore range deletions,
    /// 32 no fill cache, 64 async I/O, 128 readahead.
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
    /// Puts a key.
    Put(Cf, Key, Val),
    /// Adds a merge operand.
    Merge(Cf, Key, Val),
    /// Deletes a key.
    Delete(Cf, Key),
    /// Deletes a key that was put once.
    Single(Cf, Key),
    /// Deletes a range; the keys are in bytewise order.
    Range(Cf, Key, Key),
}

/// An operation on a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Adds a change.
    Add(Change),
    /// Adds log data.
    Note(Val),
    /// Sets a save point.
    Save,
    /// Rolls back to the last save point.
    Rollback,
    /// Removes the last save point.
    Pop,
    /// Empties it.
    Clear,
    /// Compares the number of its records and its bytes.
    Look,
    /// Iterates over its records.
    Walk,
    /// Writes it and keeps it.
    Write,
}

/// A move of an iterator.
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
    /// Refreshes it.
    Refresh,
}

/// The function that reads a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// A copy.
    Get,
    /// Pinned.
    Pinned,
    /// Into a buffer of this size.
    Into(u16),
    /// `key_may_exist`.
    May,
}

/// The number of transactions.
pub const TXNS: usize = 2;

/// An operation on a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deed {
    /// Adds a change.
    Add(Change),
    /// Reads a key.
    Get(Cf, Key, Ro),
    /// Reads a key for update, exclusively if the flag is set.
    GetForUpdate(Cf, Key, bool, Ro),
    /// Reads keys, for update if the flag is set.
    MultiGet(Vec<(Cf, Key)>, bool, Ro),
    /// Creates an iterator in a slot.
    Iter(Slot, Cf, Ro),
    /// Compares its records.
    Look,
    /// Sets a save point.
    Save,
    /// Rolls back to the last save point.
    RollbackToSave,
    /// Sets its name.
    Name(u16),
    /// Adds the records of a batch.
    Rebuild(Slot),
    /// Prepares it.
    Prepare,
    /// Commits it.
    Commit,
    /// Rolls it back.
    RollBack,
}

/// An operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// A single change; without the WAL if the flag is set.
    Write(Change, bool),
    /// Reads a key.
    Get(Cf, Key, How, Ro),
    /// Reads keys of any families.
    MultiGet(Vec<(Cf, Key)>, Ro),
    /// Reads keys of a family as one batch, which is sorted if the flag is set.
    Batched(Cf, Vec<Key>, bool, Ro),
    /// Creates an iterator.
    IterNew(Slot, Cf, Ro),
    /// Moves an iterator.
    Iter(Slot, Move),
    /// Destroys an iterator.
    IterDrop(Slot),
    /// Takes a snapshot.
    Snapshot(Slot),
    /// Releases it.
    Release(Slot),
    /// A batch.
    Batch(Slot, Act),
    /// Recreates a batch with index; the flag is `overwrite_keys`.
    IndexNew(Slot, bool),
    /// A batch with index.
    Index(Slot, Act),
    /// Reads a key from a batch with index alone.
    IndexGet(Slot, Cf, Key),
    /// Reads a key from a batch with index and the database, pinned or copied.
    IndexGetDb(Slot, Cf, Key, bool, Ro),
    /// Creates an iterator (second slot) over a batch with index and the database, with the read
    /// options for both or for the base only.
    IndexIter(Slot, Slot, Cf, Ro, bool),
    /// Flushes a family.
    Flush(Cf),
    /// Flushes all families.
    FlushAll,
    /// Compacts a range of a family: `bottommost_level_compaction` and the target level.
    Compact(Cf, Option<(Key, Key)>, u8, Option<u8>),
    /// Waits until no compaction runs or is due.
    Settle,
    /// Sets the options of a row of [`CHANGES`].
    SetOptions(Cf, usize),
    /// Creates a family.
    CreateFamily(Cf),
    /// Drops a family.
    DropFamily(Cf),
    /// Closes and opens.
    Reopen,
    /// Closes and opens read-only.
    ReadOnly,
    /// Creates a checkpoint, opens it, and compares its content.
    Checkpoint(u16),
    /// Writes a table and ingests it; the bits are ingestion options.
    Ingest(Cf, Vec<Change>, u8),
    /// Compares the property of a row of [`PROPERTIES`].
    Property(Cf, usize),
    /// Approximate sizes.
    Sizes(Cf, Key, Key),
    /// The WAL from this number of sequence numbers before the last.
    Updates(u16),
    /// The content of a family.
    Scan(Cf, Ro),
    /// The names and ids of the families.
    Families,
    /// Begins a transaction; with a snapshot if the flag is set.
    Begin(Slot, bool),
    /// Uses a transaction.
    Transact(Slot, Deed),
    /// A single change with a lock.
    Locked(Change),
    /// Writes a batch with locks.
    LockedBatch(Slot),
}

/// Option changes: valid ones, unknown names, invalid values.
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

/// Deterministic properties, and those that are deterministic only without background work.
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
