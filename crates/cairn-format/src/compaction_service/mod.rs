//! The request and the result of a remote compaction, as RocksDB's primary and worker exchange them.
//!
//! ```text
//! offset  size  field
//!      0     4  version, little-endian: 1
//!      4     n  members as text: name=value;name={name=value;...};...
//! ```
//!
//! Names, keys and paths are hexadecimal. A list separates its elements with colons, and encloses an element
//! that contains a colon in braces. Members may be in any order; a missing member has its default, and
//! unknown ones are skipped, because newer releases add members.

use cairn_types::{Decoded, Malformed};

use crate::record_text::{Element, Value, record};
use crate::table::properties::Properties;

/// The only version of the encoding.
const VERSION: u32 = 1;

record! {
    /// A request to compact files.
    Request {
        /// The name of the column family.
        family: Vec<u8> = "cf_name";
        /// Sequence numbers of snapshots, strictly ascending.
        snapshots: Vec<u64> = "snapshots";
        /// The names of the input files.
        input_files: Vec<Vec<u8>> = "input_files";
        /// The output level.
        output_level: i32 = "output_level";
        /// The id of the database.
        db_id: Vec<u8> = "db_id";
        /// True if `begin` is the first user key; otherwise the range is unbounded below.
        has_begin: bool = "has_begin";
        /// The first user key.
        begin: Vec<u8> = "begin";
        /// True if `end` is the first user key after the range; otherwise the range is unbounded above.
        has_end: bool = "has_end";
        /// The first user key after the range.
        end: Vec<u8> = "end";
        /// The number of the OPTIONS file.
        options_file_number: u64 = "options_file_number";
        /// The number of the oldest MANIFEST that a worker may read; 0 accepts any.
        min_manifest_file_number: u64 = "min_manifest_file_number";
        /// The minimum size of the MANIFEST with that number, in bytes.
        min_manifest_file_size: u64 = "min_manifest_file_size";
    }
}

record! {
    /// The status of a remote compaction, with RocksDB's numbers.
    Status {
        /// The code; 0 if the compaction succeeded.
        code: u8 = "code";
        /// The subcode.
        subcode: u8 = "subcode";
        /// The severity.
        severity: u8 = "severity";
        /// The message.
        message: Vec<u8> = "message";
    }
}

record! {
    /// A table written by a worker.
    OutputFile {
        /// Its name in the output directory.
        file_name: Vec<u8> = "file_name";
        /// Its size in bytes; 0 if unknown.
        file_size: u64 = "file_size";
        /// The smallest sequence number.
        smallest_seqno: u64 = "smallest_seqno";
        /// The largest sequence number.
        largest_seqno: u64 = "largest_seqno";
        /// The smallest internal key.
        smallest: Vec<u8> = "smallest_internal_key";
        /// The largest internal key.
        largest: Vec<u8> = "largest_internal_key";
        /// The creation time of the oldest data, in seconds since 1970.
        oldest_ancester_time: u64 = "oldest_ancester_time";
        /// The creation time, in seconds since 1970.
        file_creation_time: u64 = "file_creation_time";
        /// The epoch number.
        epoch_number: u64 = "epoch_number";
        /// The checksum of the whole file.
        file_checksum: Vec<u8> = "file_checksum";
        /// The name of the checksum function.
        file_checksum_func_name: Vec<u8> = "file_checksum_func_name";
        /// RocksDB's hash of all entries; 0 if it was not computed.
        paranoid_hash: u64 = "paranoid_hash";
        /// True if a property collector marked the table for compaction.
        marked_for_compaction: bool = "marked_for_compaction";
        /// The unique id; zeros if unknown.
        unique_id: [u64; 2] = "unique_id";
        /// The properties. Encoded, but not decoded: readers find them in the table.
        table_properties: Properties = "table_properties";
        /// True if the table belongs to the level above the output level.
        is_proximal_level_output: bool = "is_proximal_level_output";
        /// The temperature, such as `kUnknown`.
        file_temperature: String = "file_temperature";
    }
}

record! {
    /// The statistics of a compaction.
    JobStats {
        /// Elapsed time, in microseconds.
        elapsed_micros: u64 = "elapsed_micros";
        /// CPU time, in microseconds.
        cpu_micros: u64 = "cpu_micros";
        /// True if `num_input_records` counts every entry of the inputs.
        has_accurate_num_input_records: bool = "has_accurate_num_input_records";
        /// Entries read.
        num_input_records: u64 = "num_input_records";
        /// Input files.
        num_input_files: u64 = "num_input_files";
        /// Input files in the output level.
        num_input_files_at_output_level: u64 = "num_input_files_at_output_level";
        /// Entries written.
        num_output_records: u64 = "num_output_records";
        /// Tables written.
        num_output_files: u64 = "num_output_files";
        /// True if the inputs are all files.
        is_full_compaction: bool = "is_full_compaction";
        /// True if the compaction is manual.
        is_manual_compaction: bool = "is_manual_compaction";
        /// True if the compaction is remote.
        is_remote_compaction: bool = "is_remote_compaction";
        /// Bytes of the input files.
        total_input_bytes: u64 = "total_input_bytes";
        /// Bytes of the tables written.
        total_output_bytes: u64 = "total_output_bytes";
        /// Entries shadowed by newer ones.
        num_records_replaced: u64 = "num_records_replaced";
        /// Bytes of keys read.
        total_input_raw_key_bytes: u64 = "total_input_raw_key_bytes";
        /// Bytes of values read.
        total_input_raw_value_bytes: u64 = "total_input_raw_value_bytes";
        /// Deletions read.
        num_input_deletion_records: u64 = "num_input_deletion_records";
        /// Deletions with nothing left to delete.
        num_expired_deletion_records: u64 = "num_expired_deletion_records";
        /// Duration of writes, in nanoseconds.
        file_write_nanos: u64 = "file_write_nanos";
        /// Duration of range syncs, in nanoseconds.
        file_range_sync_nanos: u64 = "file_range_sync_nanos";
        /// Duration of syncs, in nanoseconds.
        file_fsync_nanos: u64 = "file_fsync_nanos";
        /// Duration of allocations, in nanoseconds.
        file_prepare_write_nanos: u64 = "file_prepare_write_nanos";
        /// The first bytes of the smallest key written.
        smallest_output_key_prefix: Vec<u8> = "smallest_output_key_prefix";
        /// The first bytes of the largest key written.
        largest_output_key_prefix: Vec<u8> = "largest_output_key_prefix";
        /// Single deletions without an older entry.
        num_single_del_fallthru: u64 = "num_single_del_fallthru";
        /// Single deletions whose next older entry is not a value.
        num_single_del_mismatch: u64 = "num_single_del_mismatch";
    }
}

record! {
    /// The work of a compaction on a level.
    LevelStats {
        /// Elapsed time, in microseconds.
        micros: u64 = "micros";
        /// CPU time, in microseconds.
        cpu_micros: u64 = "cpu_micros";
        /// Bytes of the tables written.
        bytes_written: u64 = "bytes_written";
        /// Tables written.
        num_output_files: i32 = "num_output_files";
        /// Entries read.
        num_input_records: u64 = "num_input_records";
        /// Entries read and not written.
        num_dropped_records: u64 = "num_dropped_records";
        /// Entries written.
        num_output_records: u64 = "num_output_records";
        /// The number of compactions. Their number by reason is left out: the length of that list depends on
        /// the release, and RocksDB 11.1 rejects other lengths.
        count: i32 = "count";
    }
}

record! {
    /// The work of a compaction on all levels.
    InternalStats {
        /// That on the output level.
        output_level_stats: LevelStats = "output_level_stats";
        /// True if there are outputs in the level above.
        has_proximal_level_output: bool = "has_proximal_level_output";
        /// The work on the level above.
        proximal_level_stats: LevelStats = "proximal_level_stats";
    }
}

record! {
    /// The result of a remote compaction.
    Reply {
        /// The status.
        status: Status = "status";
        /// The tables written, in key order.
        output_files: Vec<OutputFile> = "output_files";
        /// The output level.
        output_level: i32 = "output_level";
        /// The directory of the tables.
        output_path: Vec<u8> = "output_path";
        /// Bytes read.
        bytes_read: u64 = "bytes_read";
        /// Bytes written.
        bytes_written: u64 = "bytes_written";
        /// Statistics of the compaction.
        stats: JobStats = "stats";
        /// Statistics by level.
        internal_stats: InternalStats = "internal_stats";
    }
}

impl Element for OutputFile {}

impl Request {
    /// Returns the encoded request.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        encode(|out| self.print_members(out))
    }

    /// Decodes a request.
    ///
    /// # Errors
    ///
    /// The offset and the member that is invalid; an unsupported version.
    pub fn decode(bytes: &[u8]) -> Decoded<Request> {
        let mut request = Request::default();
        let (text, at) = members(bytes)?;
        request.parse(text, at)?;
        if request.snapshots.windows(2).any(|pair| pair[0] >= pair[1]) {
            return Err(Malformed::at(at, "snapshots do not ascend"));
        }
        Ok(request)
    }
}

impl Reply {
    /// Returns the encoded result.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        encode(|out| self.print_members(out))
    }

    /// Decodes a result.
    ///
    /// # Errors
    ///
    /// The offset and the member that is invalid; an unsupported version.
    pub fn decode(bytes: &[u8]) -> Decoded<Reply> {
        let mut reply = Reply::default();
        let (text, at) = members(bytes)?;
        reply.parse(text, at)?;
        Ok(reply)
    }
}

fn encode(print: impl FnOnce(&mut String)) -> Vec<u8> {
    let mut text = String::new();
    print(&mut text);
    let mut bytes = VERSION.to_le_bytes().to_vec();
    bytes.extend_from_slice(text.as_bytes());
    bytes
}

/// Returns the members in `bytes`, and their offset.
fn members(bytes: &[u8]) -> Decoded<(&str, usize)> {
    let (version, text) = bytes
        .split_first_chunk::<4>()
        .filter(|(_, text)| !text.is_empty())
        .ok_or_else(|| Malformed::at(0, "remote compaction message is truncated"))?;
    let version = u32::from_le_bytes(*version);
    if version != VERSION {
        return Err(Malformed::unsupported(
            0,
            format!("remote compaction message of version {version}"),
        ));
    }
    let text = std::str::from_utf8(text)
        .map_err(|error| Malformed::at(4 + error.valid_up_to(), "text is not UTF-8"))?;
    Ok((text, 4))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As written by RocksDB 11.12, with members in another order.
    const REQUEST: &str = "min_manifest_file_size=669;options_file_number=7;has_end=false;has_begin=true;\
         min_manifest_file_number=5;db_id=3330;output_level=6;end=;\
         input_files=3030303031372E737374:3030303031352E737374;begin=6B3B;snapshots=300:301;\
         cf_name=64656661756C74;";

    const REPLY: &str = "stats={num_single_del_mismatch=0;is_remote_compaction=true;num_output_records=102;\
         largest_output_key_prefix=6B;};bytes_read=15202;output_path=2F746D70;internal_stats={proximal_level_stats=\
         {counts=0:0:1;count=1;};has_proximal_level_output=false;output_level_stats={num_output_files=1;\
         bytes_moved=0;};};bytes_written=1525;output_level=6;output_files={{{file_temperature=kUnknown;\
         table_properties={readable_properties={};user_collected_properties={61=31;};data_size=230;};\
         unique_id=15273778546303305702:2;file_size=1525;largest_seqno=302;\
         largest_internal_key=6B0100000000000000;file_name=3030303031392E737374;}}};\
         status={message=;severity=0;subcode=0;code=0;};";

    fn bytes(text: &str) -> Vec<u8> {
        [&[1, 0, 0, 0], text.as_bytes()].concat()
    }

    #[test]
    fn messages_of_rocksdb_are_read() {
        let request = Request::decode(&bytes(REQUEST)).unwrap();
        assert_eq!(request.family, b"default");
        assert_eq!(request.snapshots, [300, 301]);
        assert_eq!(request.input_files, [b"000017.sst", b"000015.sst"]);
        assert!(request.has_begin && !request.has_end && request.begin == b"k;");
        assert_eq!(
            (request.output_level, request.min_manifest_file_size),
            (6, 669)
        );
        let reply = Reply::decode(&bytes(REPLY)).unwrap();
        assert_eq!((reply.bytes_read, reply.output_level), (15202, 6));
        assert_eq!(reply.internal_stats.proximal_level_stats.count, 1);
        let [file] = &reply.output_files[..] else {
            panic!("{reply:?}");
        };
        assert_eq!(file.file_name, b"000019.sst");
        assert_eq!(file.unique_id, [15_273_778_546_303_305_702, 2]);
        assert_eq!((file.file_size, file.largest_seqno), (1525, 302));
    }

    #[test]
    fn messages_read_as_they_were_written() {
        let mut request = Request::decode(&bytes(REQUEST)).unwrap();
        request.begin = vec![0, b'{', b';', 0xff];
        assert_eq!(Request::decode(&request.encode()).unwrap(), request);
        request.snapshots.clear();
        request.input_files.clear();
        assert_eq!(Request::decode(&request.encode()).unwrap(), request);
        let mut reply = Reply::decode(&bytes(REPLY)).unwrap();
        for files in 0..4 {
            let file = reply.output_files[0].clone();
            reply.output_files.resize(files, file);
            assert_eq!(Reply::decode(&reply.encode()).unwrap(), reply);
            if files == 0 {
                reply.output_files.push(OutputFile::default());
            }
        }
    }

    #[test]
    fn other_versions_and_short_messages_are_errors() {
        for (bytes, unsupported) in [
            (&b""[..], false),
            (b"\x01\0\0\0", false),
            (b"\x02\0\0\0cf_name=", true),
            (b"\x01\0\0\0\xff", false),
            (b"\x01\0\0\0snapshots=2:2;", false),
            (b"\x01\0\0\0snapshots=2:x;", false),
            (b"\x01\0\0\0cf_name=6;", false),
            (b"\x01\0\0\0begin={;", false),
            (b"\x01\0\0\0nothing", false),
        ] {
            let error = Request::decode(bytes).unwrap_err();
            assert_eq!(error.unsupported, unsupported, "{error}");
        }
    }

    #[test]
    fn damaged_messages_never_panic() {
        let reply = bytes(REPLY);
        for at in 0..reply.len() {
            // Any outcome is fine.
            let _ = Reply::decode(&reply[..at]);
            for byte in *b"{};:=-\x00\xff9" {
                let mut damaged = reply.clone();
                damaged[at] = byte;
                let _ = Reply::decode(&damaged);
            }
        }
        let deep = bytes(&format!("output_files={};", "{".repeat(1 << 16)));
        assert!(Reply::decode(&deep).is_err());
    }
}
