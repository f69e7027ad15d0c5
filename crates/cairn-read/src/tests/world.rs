//! A view with history in all kinds of sources, and the map of its expected contents.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use cairn_format::dated;
use cairn_format::filter::FilterPolicy;
use cairn_format::key::{self, InternalKey};
use cairn_format::range_del::Tombstone;
use cairn_format::wide::{self, Column, ColumnValue};
use cairn_memory::{BlockCache, CacheOptions};
use cairn_memtable::{FilterOptions, Memtable, MemtableOptions};
use cairn_observe::statistics::Statistics;
use cairn_options::{TableOptions, merge_operators};
use cairn_platform::SystemClock;
use cairn_platform::fs::FileMode;
use cairn_platform::mem::MemFileSystem;
use cairn_platform::{FileSystem, Io};
use cairn_table::{BuildParams, TableBuilder};
use cairn_types::{
    FileNumber, KeyOrder, MergeOperator, PrefixExtractor, SequenceNumber, ValueKind,
};
use cairn_version::{FileMeta, TableSource, TreeEdit, Version};

use crate::blob::BlobSource;
use crate::row_cache::RowCache;
use crate::view::{Reading, View, ViewEnd};

/// A write. Its sequence number is its index in the history, from 1.
#[derive(Clone, Debug)]
pub(super) enum Change {
    Put(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
    SingleDelete(Vec<u8>),
    Merge(Vec<u8>, Vec<u8>),
    DeleteRange(Vec<u8>, Vec<u8>),
    /// An entity with this default column and one other column.
    PutEntity(Vec<u8>, Vec<u8>),
}

/// The layout of the history.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    /// The number of changes, from the oldest, in level 2, level 1, the older and the newer level-0
    /// table. Half of the remaining changes are in an immutable memtable.
    pub(super) layers: Vec<usize>,
    /// The number of tables in a level.
    pub(super) files: usize,
    /// `max_sequential_skip_in_iterations`.
    pub(super) skip: u64,
    pub(super) block_size: u64,
    /// The restart interval.
    pub(super) interval: i32,
    pub(super) reverse: bool,
    /// True if values and operands are stored with TTL timestamps.
    pub(super) dated: bool,
    /// The capacity of the row cache, if there is one.
    pub(super) row_cache: Option<usize>,
    /// True if tables have filters of keys and prefixes.
    pub(super) filtered: bool,
}

pub(super) struct World {
    pub(super) view: Arc<View>,
    changes: Vec<Change>,
    fs: Arc<MemFileSystem>,
}

struct Builder {
    fs: Arc<MemFileSystem>,
    order: KeyOrder,
    options: Arc<TableOptions>,
    dated: bool,
    edit: TreeEdit,
    next: u64,
}

impl World {
    pub(super) fn new(changes: &[Change], shape: &Shape) -> World {
        let order = match shape.reverse {
            true => KeyOrder::ReverseBytewise,
            false => KeyOrder::Bytewise,
        };
        World::with_operator(
            changes,
            shape,
            Some(merge_operators::from_text("stringappend").unwrap()),
            order,
        )
    }

    pub(super) fn with_operator(
        changes: &[Change],
        shape: &Shape,
        merge_operator: Option<Arc<dyn MergeOperator>>,
        order: KeyOrder,
    ) -> World {
        let fs = Arc::new(MemFileSystem::new());
        fs.create_dir_all(&dir()).unwrap();
        let options = TableOptions {
            block_size: shape.block_size,
            block_restart_interval: shape.interval,
            filter_policy: match shape.filtered {
                true => FilterPolicy::from_text("bloomfilter:10:false"),
                false => None,
            },
            ..TableOptions::default()
        };
        let mut builder = Builder {
            fs: fs.clone(),
            order: order.clone(),
            options: Arc::new(options),
            dated: shape.dated,
            edit: TreeEdit::default(),
            next: 10,
        };
        let mut rest: Vec<(u64, Change)> = (1..).zip(changes.iter().cloned()).collect();
        for (&count, level) in shape.layers.iter().zip([2, 1, 0, 0]) {
            let newer = rest.split_off(count.min(rest.len()));
            let files = if level == 0 { 1 } else { shape.files };
            builder.add_tables(level, files, &rest);
            rest = newer;
        }
        let memtables = rest.split_at(rest.len() / 2);
        // One of the memtables has a whole-key filter; prefix filters would not suit these tests,
        // whose scans cross prefixes.
        let filter = FilterOptions {
            bytes: 64,
            whole_keys: true,
            prefix_extractor: None,
        };
        let parts = [
            (memtables.0, filter),
            (memtables.1, FilterOptions::default()),
        ];
        let [immutable, memtable] = parts.map(|(part, filter)| {
            let options = MemtableOptions {
                filter,
                ..MemtableOptions::default()
            };
            let memtable = Memtable::new(order.clone(), options);
            for (seq, change) in part {
                let (kind, key, value) = change.stored(shape.dated);
                memtable.add(SequenceNumber(*seq), kind, &key, &value);
            }
            Arc::new(memtable)
        });
        let tables = Arc::new(TableSource {
            prefix_extractor: Some(PrefixExtractor::Fixed(1)),
            options: builder.options.clone(),
            cache: Some(Arc::new(BlockCache::new(1 << 26, CacheOptions::default()))),
            ..TableSource::new(fs.clone(), vec![dir()], order.clone())
        });
        let blobs = BlobSource::new(fs.clone(), dir(), FileMode::default(), None);
        let reading = Reading {
            merge_operator,
            dated: shape.dated,
            prefix_extractor: Some(PrefixExtractor::Fixed(1)),
            max_sequential_skip: shape.skip,
            row_cache: shape.row_cache.map(|bytes| RowCache {
                cache: Arc::new(BlockCache::new(bytes, CacheOptions::default())),
                salt: 1,
            }),
            ..Reading::new(
                "default".to_owned(),
                tables,
                Arc::new(blobs),
                Io::blocking(),
                Arc::new(SystemClock),
            )
        };
        let view = View {
            memtable,
            immutables: vec![immutable],
            version: Arc::new(Version::empty(order, 4).with_edit(&builder.edit).unwrap()),
            family: Arc::new(reading),
            number: 1,
            end: ViewEnd::default(),
        };
        World {
            view: Arc::new(view),
            changes: changes.to_vec(),
            fs,
        }
    }

    /// Sets `min_tombstones_for_range_conversion`.
    pub(super) fn converting(mut self, threshold: u32) -> World {
        self.reading().min_tombstones_for_range_conversion = threshold;
        self
    }

    /// Sets the statistics.
    pub(super) fn with_statistics(mut self, statistics: Statistics) -> World {
        self.reading().statistics = Some(Arc::new(statistics));
        self
    }

    fn reading(&mut self) -> &mut Reading {
        let view = Arc::get_mut(&mut self.view).expect("nothing reads the view yet");
        Arc::get_mut(&mut view.family).expect("only the view has it")
    }

    pub(super) fn order(&self) -> &KeyOrder {
        &self.view.family.order
    }

    /// The expected entries at `seq`, in order.
    pub(super) fn model(&self, seq: u64) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut map: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        for change in &self.changes[..seq as usize] {
            match change {
                Change::Put(key, value) | Change::PutEntity(key, value) => {
                    map.insert(key.clone(), value.clone());
                }
                Change::Delete(key) | Change::SingleDelete(key) => {
                    map.remove(key);
                }
                Change::Merge(key, operand) => {
                    map.entry(key.clone())
                        .and_modify(|value| {
                            value.push(b',');
                            value.extend_from_slice(operand);
                        })
                        .or_insert_with(|| operand.clone());
                }
                Change::DeleteRange(start, end) => {
                    map.retain(|key, _| {
                        self.order().compare(key, start).is_lt()
                            || self.order().compare(key, end).is_ge()
                    });
                }
            }
        }
        let mut pairs: Vec<_> = map.into_iter().collect();
        pairs.sort_by(|a, b| self.order().compare(&a.0, &b.0));
        pairs
    }

    /// Flips a bit in the first table written.
    pub(super) fn damage_first_table(&self, offset: usize) {
        let path = dir().join("000010.sst");
        let file = self.fs.open(&path, FileMode::default()).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_at(0, &mut bytes).unwrap();
        bytes[offset] ^= 4;
        self.fs.remove(&path).unwrap();
        self.fs
            .create(&path, FileMode::default())
            .unwrap()
            .append(&bytes)
            .unwrap();
    }
}

impl Change {
    /// The change as a memtable entry, with a TTL timestamp if `dated`.
    fn stored(&self, dated: bool) -> (ValueKind, Vec<u8>, Vec<u8>) {
        let (kind, key, mut value) = self.entry();
        if dated && matches!(kind, ValueKind::Value | ValueKind::Merge) {
            value.extend_from_slice(&dated::encode(1_800_000_000));
        }
        (kind, key, value)
    }

    /// The change as a memtable entry.
    fn entry(&self) -> (ValueKind, Vec<u8>, Vec<u8>) {
        match self.clone() {
            Change::Put(key, value) => (ValueKind::Value, key, value),
            Change::Delete(key) => (ValueKind::Deletion, key, Vec::new()),
            Change::SingleDelete(key) => (ValueKind::SingleDeletion, key, Vec::new()),
            Change::Merge(key, operand) => (ValueKind::Merge, key, operand),
            Change::DeleteRange(start, end) => (ValueKind::RangeDeletion, start, end),
            Change::PutEntity(key, value) => {
                let column = |name, value| Column {
                    name,
                    value: ColumnValue::Inline(value),
                };
                let mut entity = Vec::new();
                wide::encode(
                    &[column(b"", &value), column(b"other", b"column")],
                    &mut entity,
                )
                .unwrap();
                (ValueKind::WideColumnEntity, key, entity)
            }
        }
    }
}

impl Builder {
    /// Writes `changes` as up to `files` tables of `level`, split between user keys.
    fn add_tables(&mut self, level: usize, files: usize, changes: &[(u64, Change)]) {
        let order = self.order.clone();
        let mut points = Vec::new();
        let mut ranges = Vec::new();
        for (seq, change) in changes {
            let (kind, user, value) = change.stored(self.dated);
            let kind = match kind {
                ValueKind::Deletion if order.timestamp_size() > 0 => {
                    ValueKind::DeletionWithTimestamp
                }
                kind => kind,
            };
            if kind != ValueKind::RangeDeletion {
                let key = InternalKey::new(&user, SequenceNumber(*seq), kind);
                points.push((key.into_bytes(), value));
            } else if order.compare(&user, &value).is_lt() {
                ranges.push((*seq, user, value));
            }
        }
        points.sort_by(|a, b| key::compare(&order, &a.0, &b.0));
        let mut from: Option<Vec<u8>> = None;
        for nth in 0..files {
            // The next table begins with this user key.
            let split = points.get(points.len() * (nth + 1) / files);
            let until = split
                .filter(|_| nth + 1 < files)
                .map(|(key, _)| key::user_key(key).to_vec());
            let within = |user: &[u8]| {
                from.as_ref()
                    .is_none_or(|from| order.compare_without_timestamp(user, from).is_ge())
                    && until
                        .as_ref()
                        .is_none_or(|until| order.compare_without_timestamp(user, until).is_lt())
            };
            let points: Vec<_> = points
                .iter()
                .filter(|(key, _)| within(key::user_key(key)))
                .collect();
            let ranges: Vec<_> = ranges
                .iter()
                .filter_map(|(seq, start, end)| {
                    let start = from
                        .as_ref()
                        .filter(|from| order.compare(start, from).is_lt())
                        .unwrap_or(start);
                    let end = until
                        .as_ref()
                        .filter(|until| order.compare(until, end).is_lt())
                        .unwrap_or(end);
                    order
                        .compare(start, end)
                        .is_lt()
                        .then(|| (*seq, start.clone(), end.clone()))
                })
                .collect();
            self.add_table(level, &points, &ranges);
            from = until.or(from);
            if split.is_none() {
                break;
            }
        }
    }

    fn add_table(
        &mut self,
        level: usize,
        points: &[&(Vec<u8>, Vec<u8>)],
        ranges: &[(u64, Vec<u8>, Vec<u8>)],
    ) {
        if points.is_empty() && ranges.is_empty() {
            return;
        }
        let number = FileNumber(self.next);
        self.next += 1;
        let path = dir().join(format!("{number}.sst"));
        let file = self.fs.create(&path, FileMode::default()).unwrap();
        let params = BuildParams {
            options: self.options.clone(),
            order: self.order.clone(),
            prefix_extractor: Some(PrefixExtractor::Fixed(1)),
            identity: cairn_table::TableIdentity {
                number,
                ..Default::default()
            },
            ..BuildParams::default()
        };
        let mut table = TableBuilder::create(file.clone(), params).unwrap();
        let mut bounds: Vec<InternalKey> = Vec::new();
        let mut seqs = Vec::new();
        for (key, value) in points {
            table.add(key, value).unwrap();
            bounds.push(InternalKey::decode(key).unwrap());
            seqs.push(key::sequence(key));
        }
        for (seq, start, end) in ranges {
            let start = InternalKey::new(start, SequenceNumber(*seq), ValueKind::RangeDeletion);
            table.add_range_tombstone(start.as_bytes(), end).unwrap();
            bounds.push(start);
            let plain = key::strip_timestamp(end, self.order.timestamp_size());
            let tombstone = Tombstone {
                start: Vec::new(),
                end: plain.to_vec(),
                seq: SequenceNumber(*seq),
                ts: end[plain.len()..].to_vec(),
            };
            bounds.push(tombstone.upper_bound());
            seqs.push(SequenceNumber(*seq));
        }
        table.finish().unwrap();
        bounds.sort_by(|a, b| key::compare(&self.order, a.as_bytes(), b.as_bytes()));
        let mut meta = FileMeta::new(
            number,
            file.len(),
            bounds[0].clone(),
            bounds[bounds.len() - 1].clone(),
        );
        meta.seqs.smallest = *seqs.iter().min().unwrap();
        meta.seqs.largest = *seqs.iter().max().unwrap();
        meta.epoch = number.0;
        self.edit.added.push((level, Arc::new(meta)));
    }
}

fn dir() -> PathBuf {
    PathBuf::from("/db")
}
