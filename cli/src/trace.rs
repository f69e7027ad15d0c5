//! The command `trace`: prints the records of a trace of queries, block lookups or file operations, or a summary.

use std::collections::BTreeMap;
use std::io::Write;

use cairn::trace::{FileTraceReader, TraceReader};
use cairn::{Record, WriteBatch};
use cairn_format::key;
use cairn_format::trace::block_cache::{Access, CacheCaller, NO_LEVEL, TracedBlock, WriterVersion};
use cairn_format::trace::io::{IoOperation, STATUS_OK};
use cairn_format::trace::{BEGIN, END, METADATA_LEN, Metadata, Query, TraceVersions};
use cairn_platform::World;
use cairn_types::{Decoded, Error, Malformed, Result};
use serde_json::{Map, Value, json};

use crate::args::Trace;
use crate::show::{aligned, escaped};

/// The kind of a trace, which its first record and the kind of the second one determine.
enum Kind {
    Queries(TraceVersions),
    /// Block lookups or file operations, of which each record has its own kind.
    Others,
}

/// A record: the name of the operation, and the names and values of its members.
struct Shown {
    operation: &'static str,
    members: Vec<(&'static str, Value)>,
}

/// Prints the trace. After damage, everything before it is printed and the error is returned.
pub fn run(flags: &Trace, out: &mut dyn Write) -> Result<()> {
    let mut reader = FileTraceReader::open(&World::posix(), &flags.file)?;
    let mut summary = Summary::default();
    let read = read_all(&mut reader, flags, &mut summary, out);
    let printed = match flags.records {
        true => Ok(()),
        false => print(out, &summary.show(flags.json)),
    };
    read.and(printed)
}

fn print(out: &mut dyn Write, text: &str) -> Result<()> {
    out.write_all(text.as_bytes())
        .map_err(|error| Error::io_text(format!("print: {error}")))
}

fn read_all(
    reader: &mut FileTraceReader,
    flags: &Trace,
    summary: &mut Summary,
    out: &mut dyn Write,
) -> Result<()> {
    let path = flags.file.display();
    let in_file = |error: Malformed, at: u64| error.in_file(&path, at);
    let first = reader.read()?;
    let first = first.ok_or_else(|| Error::corruption(format!("{path} is empty")))?;
    let mut at = first.len() as u64;
    let kind = header(&first).map_err(|error| in_file(error, METADATA_LEN as u64))?;
    while let Some(record) = reader.read()? {
        let (metadata, payload) = record.split_at(METADATA_LEN);
        let metadata = Metadata::decode(metadata).expect("a record has its metadata");
        if metadata.kind == END && matches!(kind, Kind::Queries(_)) {
            break;
        }
        let shown = decode(&kind, &metadata, payload, summary)
            .map_err(|error| in_file(error, at + METADATA_LEN as u64))?;
        at += record.len() as u64;
        if flags.records {
            let line = shown.line(metadata.micros, flags.json);
            print(out, &line)?;
        }
    }
    Ok(())
}

fn header(record: &[u8]) -> Decoded<Kind> {
    let (metadata, payload) = record.split_at(METADATA_LEN);
    if Metadata::decode(metadata)?.kind != BEGIN {
        return Err(Malformed::at(0, "first record of a trace"));
    }
    match WriterVersion::decode(payload) {
        Ok(_) => Ok(Kind::Others),
        Err(_) => TraceVersions::decode(payload).map(Kind::Queries),
    }
}

fn decode(
    kind: &Kind,
    metadata: &Metadata,
    payload: &[u8],
    summary: &mut Summary,
) -> Decoded<Shown> {
    if let Kind::Queries(versions) = kind {
        let query = Query::decode(metadata.kind, versions, payload)?;
        return Ok(show_query(&query, summary));
    }
    match IoOperation::decode(metadata.kind, payload) {
        Ok(operation) => Ok(show_operation(&operation, summary)),
        // Another kind of record.
        Err(error) if error.unsupported && metadata.kind != IO => {
            let access = Access::decode(metadata.kind, payload)?;
            Ok(show_lookup(&access, summary))
        }
        Err(error) => Err(error),
    }
}

/// The kind of a file operation.
const IO: u8 = 12;

fn text(bytes: &[u8]) -> Value {
    escaped(bytes).into()
}

fn show_query(query: &Query<'_>, summary: &mut Summary) -> Shown {
    let (operation, members) = match query {
        Query::Write(data) => return show_write(data, summary),
        Query::Get { family, key } => ("get", vec![("family", json!(family)), ("key", text(key))]),
        Query::Seek(seek) | Query::SeekForPrev(seek) => {
            let mut members = vec![("family", json!(seek.family)), ("key", text(seek.key))];
            let bounds = [("lower", seek.lower), ("upper", seek.upper)];
            let set = bounds.into_iter().filter(|(_, bound)| !bound.is_empty());
            members.extend(set.map(|(name, bound)| (name, text(bound))));
            let operation = match query {
                Query::Seek(_) => "seek",
                _ => "seek_for_prev",
            };
            (operation, members)
        }
        Query::MultiGet(keys) => {
            for (family, _) in keys {
                summary.count_query("multi_get key", Some(*family));
            }
            let keys = keys
                .iter()
                .map(|(family, key)| json!([family, escaped(key)]));
            ("multi_get", vec![("keys", keys.collect())])
        }
    };
    let family = match query {
        Query::Get { family, .. } => Some(*family),
        Query::Seek(seek) | Query::SeekForPrev(seek) => Some(seek.family),
        _ => None,
    };
    summary.count_query(operation, family);
    Shown { operation, members }
}

fn show_write(data: &[u8], summary: &mut Summary) -> Shown {
    let mut members = vec![("bytes", json!(data.len()))];
    summary.count_query("write", None);
    let batch = WriteBatch::from_data(data);
    let records = batch.as_ref().map(|batch| {
        let records = batch.records().filter_map(Result::ok);
        let shown = records.filter_map(|record| {
            let (operation, key) = write_of(&record)?;
            let family = record.family();
            summary.count_query(operation, family);
            Some(json!([operation, family, escaped(key)]))
        });
        shown.collect::<Vec<_>>()
    });
    members.push(match records {
        Ok(records) => ("records", records.into()),
        Err(error) => ("error", error.to_string().into()),
    });
    Shown {
        operation: "write",
        members,
    }
}

/// The name of a record of a batch that changes a key, and the key.
fn write_of<'a>(record: &Record<'a>) -> Option<(&'static str, &'a [u8])> {
    Some(match *record {
        Record::Put { key, .. } => ("put", key),
        Record::Delete { key, .. } => ("delete", key),
        Record::SingleDelete { key, .. } => ("single_delete", key),
        Record::Merge { key, .. } => ("merge", key),
        Record::DeleteRange { begin, .. } => ("delete_range", begin),
        Record::PutEntity { key, .. } => ("put_entity", key),
        Record::PutBlobIndex { key, .. } => ("put_blob_index", key),
        Record::TimedPut { key, .. } => ("timed_put", key),
        _ => return None,
    })
}

fn block_name(block: TracedBlock) -> &'static str {
    match block {
        TracedBlock::Index => "index",
        TracedBlock::Filter => "filter",
        TracedBlock::Data => "data",
        TracedBlock::Dictionary => "dictionary",
        TracedBlock::RangeTombstones => "range_tombstones",
    }
}

fn caller_name(caller: CacheCaller) -> &'static str {
    match caller {
        CacheCaller::Get => "get",
        CacheCaller::MultiGet => "multi_get",
        CacheCaller::Iterator => "iterator",
        CacheCaller::ApproximateSize => "approximate_size",
        CacheCaller::VerifyChecksum => "verify_checksum",
        CacheCaller::SstDump => "sst_dump",
        CacheCaller::Ingestion => "ingestion",
        CacheCaller::Repair => "repair",
        CacheCaller::Prefetch => "prefetch",
        CacheCaller::Compaction => "compaction",
        CacheCaller::CompactionRefill => "compaction_refill",
        CacheCaller::Flush => "flush",
        CacheCaller::SstFileReader => "sst_file_reader",
        CacheCaller::Uncategorized => "uncategorized",
    }
}

fn show_lookup(access: &Access<'_>, summary: &mut Summary) -> Shown {
    let level = match access.level {
        NO_LEVEL => Value::Null,
        level => level.into(),
    };
    let (block, caller) = (block_name(access.block), caller_name(access.caller));
    let mut members = vec![
        ("block", block.into()),
        ("hit", access.is_hit.into()),
        ("size", access.block_size.into()),
        ("family", text(access.family_name)),
        ("level", level.clone()),
        ("file", access.file.into()),
        ("caller", caller.into()),
        ("no_insert", access.no_insert.into()),
    ];
    if let Some(get) = &access.get {
        members.push(("get", get.id.into()));
        members.push(("at_snapshot", get.at_snapshot.into()));
        members.push(("key", text(key::user_key(get.key))));
        if let Some(search) = &get.search {
            members.push(("found", search.is_found.into()));
            members.push(("entry_size", search.entry_size.into()));
            members.push(("keys_in_block", search.keys_in_block.into()));
        }
    }
    let family = escaped(access.family_name);
    let level = match access.level {
        NO_LEVEL => "-".to_owned(),
        level => level.to_string(),
    };
    let of_block = vec![block.to_owned(), family, level];
    for (groups, group) in [
        (&mut summary.blocks, of_block),
        (&mut summary.callers, vec![caller.to_owned()]),
    ] {
        let lookups = groups.entry(group).or_default();
        lookups.count += 1;
        lookups.hits += u64::from(access.is_hit);
        if !access.is_hit {
            lookups.missed_bytes = lookups.missed_bytes.saturating_add(access.block_size);
        }
    }
    Shown {
        operation: "lookup",
        members,
    }
}

fn show_operation(operation: &IoOperation<'_>, summary: &mut Summary) -> Shown {
    let mut members = vec![
        ("name", text(operation.operation)),
        ("file", text(operation.file)),
        ("status", text(operation.status)),
        ("nanos", operation.nanos.into()),
    ];
    let numbers = [
        ("file_len", operation.file_len),
        ("len", operation.len),
        ("offset", operation.offset),
    ];
    let present = numbers
        .into_iter()
        .filter_map(|(name, it)| Some((name, it?)));
    members.extend(present.map(|(name, number)| (name, number.into())));
    if let Some(id) = operation.request_id {
        members.push(("request_id", text(id)));
    }
    let file = escaped(operation.file);
    let files = match file.rsplit_once('.') {
        Some((_, extension)) => extension,
        // MANIFEST-000005
        None => file.split('-').next().unwrap_or_default(),
    };
    let group = vec![escaped(operation.operation), files.to_owned()];
    let operations = summary.operations.entry(group).or_default();
    operations.count += 1;
    // The numbers of a damaged trace may have any sum.
    let len = operation.len.unwrap_or(0);
    operations.bytes = operations.bytes.saturating_add(len);
    operations.nanos = operations.nanos.saturating_add(operation.nanos);
    operations.longest = operations.longest.max(operation.nanos);
    operations.errors += u64::from(operation.status != STATUS_OK);
    Shown {
        operation: "operation",
        members,
    }
}

impl Shown {
    /// The record at `time` as a line.
    fn line(self, time: u64, as_json: bool) -> String {
        if as_json {
            let mut object = Map::new();
            object.insert("time".to_owned(), time.into());
            object.insert("operation".to_owned(), self.operation.into());
            let members = self.members.into_iter();
            object.extend(members.map(|(name, value)| (name.to_owned(), value)));
            return format!("{}\n", Value::Object(object));
        }
        let mut line = format!("{time} {}", self.operation);
        for (name, value) in self.members {
            let value = match value {
                Value::String(text) => text,
                other => other.to_string(),
            };
            line += &format!(" {name}={value}");
        }
        line.push('\n');
        line
    }
}

/// The lookups of a group.
#[derive(Default)]
struct Lookups {
    count: u64,
    hits: u64,
    missed_bytes: u64,
}

/// The file operations of a group.
#[derive(Default)]
struct Operations {
    count: u64,
    bytes: u64,
    nanos: u64,
    longest: u64,
    errors: u64,
}

/// Sums over the records of a trace.
#[derive(Default)]
struct Summary {
    /// By operation and family.
    queries: BTreeMap<Vec<String>, u64>,
    /// By kind of block, family and level.
    blocks: BTreeMap<Vec<String>, Lookups>,
    callers: BTreeMap<Vec<String>, Lookups>,
    /// By operation and kind of file.
    operations: BTreeMap<Vec<String>, Operations>,
}

impl Summary {
    fn count_query(&mut self, operation: &str, family: Option<u32>) {
        let family = family.map_or("-".to_owned(), |id| id.to_string());
        let group = vec![operation.to_owned(), family];
        *self.queries.entry(group).or_default() += 1;
    }

    /// The summary as text, or as JSON.
    fn show(&self, as_json: bool) -> String {
        let counted = ["count"];
        let looked_up = ["lookups", "hits", "hit ratio", "missed bytes"];
        let done = ["count", "bytes", "micros", "longest", "errors"];
        let tables = [
            Table {
                name: "queries",
                groups: &["operation", "family"],
                sums: &counted,
                rows: rows(&self.queries, |&count| vec![count.into()]),
            },
            Table {
                name: "lookups",
                groups: &["block", "family", "level"],
                sums: &looked_up,
                rows: rows(&self.blocks, Lookups::sums),
            },
            Table {
                name: "callers",
                groups: &["caller"],
                sums: &looked_up,
                rows: rows(&self.callers, Lookups::sums),
            },
            Table {
                name: "operations",
                groups: &["operation", "files"],
                sums: &done,
                rows: rows(&self.operations, Operations::sums),
            },
        ];
        let filled = tables.iter().filter(|table| !table.rows.is_empty());
        if as_json {
            let tables = filled.map(|table| (table.name.to_owned(), table.json()));
            return format!("{}\n", Value::Object(tables.collect()));
        }
        let tables: Vec<String> = filled.map(Table::text).collect();
        match tables.is_empty() {
            true => "no records\n".to_owned(),
            false => tables.join("\n"),
        }
    }
}

impl Lookups {
    fn sums(&self) -> Vec<Value> {
        let ratio = self.hits as f64 / self.count.max(1) as f64;
        // Three digits, as text has them.
        let ratio = (ratio * 1e3).round() / 1e3;
        vec![
            self.count.into(),
            self.hits.into(),
            ratio.into(),
            self.missed_bytes.into(),
        ]
    }
}

impl Operations {
    fn sums(&self) -> Vec<Value> {
        vec![
            self.count.into(),
            self.bytes.into(),
            (self.nanos / 1000).into(),
            (self.longest / 1000).into(),
            self.errors.into(),
        ]
    }
}

/// A row: the names of a group, and its sums.
type Row = (Vec<String>, Vec<Value>);

fn rows<T>(groups: &BTreeMap<Vec<String>, T>, sums: impl Fn(&T) -> Vec<Value>) -> Vec<Row> {
    let rows = groups.iter().map(|(group, of)| (group.clone(), sums(of)));
    rows.collect()
}

/// A table of the summary.
struct Table<'a> {
    name: &'static str,
    groups: &'a [&'static str],
    sums: &'a [&'static str],
    rows: Vec<Row>,
}

impl Table<'_> {
    fn text(&self) -> String {
        let head = self.groups.iter().chain(self.sums);
        let mut all = vec![head.map(|&name| name.to_owned()).collect()];
        all.extend(self.rows.iter().map(|(group, sums)| {
            let sums = sums.iter().map(Value::to_string);
            group.iter().cloned().chain(sums).collect::<Vec<_>>()
        }));
        aligned(&all, self.groups.len())
    }

    fn json(&self) -> Value {
        let row = |(group, sums): &Row| {
            let groups = self
                .groups
                .iter()
                .zip(group.iter().cloned().map(Value::from));
            let sums = self.sums.iter().zip(sums.iter().cloned());
            let members = groups.chain(sums);
            let members = members.map(|(name, value)| (name.replace(' ', "_"), value));
            Value::Object(members.collect())
        };
        self.rows.iter().map(row).collect()
    }
}
