//! Round trips of logs, and detection of all kinds of damage.

use cairn_types::SequenceNumber;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use super::*;
use crate::batch::{BatchRef, Record};

/// The result of reading a file: its records, and everything else.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    records: Vec<Vec<u8>>,
    dropped: Vec<Dropped>,
    compression: Option<u32>,
    timestamp_sizes: Vec<(u32, u16)>,
    predecessor: Option<Predecessor>,
    end: Option<End>,
}

impl Seen {
    fn reasons(&self) -> Vec<Reason> {
        self.dropped.iter().map(|dropped| dropped.reason).collect()
    }
}

fn read(file: &[u8], number: u64) -> Seen {
    let mut seen = Seen::default();
    let mut reader = LogReader::new(Bytes(file), number);
    // Each event but the last consumes at least a header.
    for _ in 0..=2 * (file.len() / HEADER_LEN) + 4 {
        match reader.next().unwrap() {
            Event::Record { payload, .. } => seen.records.push(payload.to_vec()),
            Event::Compression(kind) => seen.compression = Some(kind),
            Event::TimestampSizes(sizes) => seen.timestamp_sizes.extend(sizes.iter()),
            Event::Predecessor(predecessor) => seen.predecessor = Some(predecessor),
            Event::Dropped(dropped) => seen.dropped.push(dropped),
            Event::End(end) => {
                seen.end = Some(end);
                return seen;
            }
        }
    }
    panic!("the reader does not terminate");
}

fn framed(framing: Framing, records: &[Vec<u8>]) -> Vec<u8> {
    let mut writer = LogWriter::new(framing);
    let mut file = Vec::new();
    for record in records {
        writer.add(record, &mut file);
        assert_eq!(writer.offset(), file.len() as u64);
    }
    file
}

/// Lengths around the thresholds, with content that differs between records.
fn records() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let len = prop_oneof![
        4 => 0..300usize,
        2 => BLOCK_LEN - 30..BLOCK_LEN + 30,
        1 => 2 * BLOCK_LEN - 40..3 * BLOCK_LEN,
    ];
    let record = (len, 1..=u8::MAX).prop_map(|(len, byte)| vec![byte; len]);
    vec(record, 0..8)
}

fn framing() -> impl Strategy<Value = Framing> {
    prop_oneof![
        Just(Framing::Legacy),
        Just(Framing::Recyclable { log_number: 9 })
    ]
}

/// True if `some` are a subsequence of `all`.
fn is_subsequence(some: &[Vec<u8>], all: &[Vec<u8>]) -> bool {
    let mut all = all.iter();
    some.iter().all(|record| all.any(|other| other == record))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn records_round_trip(records in records(), framing in framing()) {
        let file = framed(framing, &records);
        let seen = read(&file, 9);
        prop_assert_eq!(&seen.records, &records);
        prop_assert!(seen.dropped.is_empty());
        let end = End { offset: file.len() as u64, zeros: 0 };
        prop_assert_eq!(seen.end, Some(end));
    }

    #[test]
    fn parts_equal_their_concatenation(
        record in vec(any::<u8>(), 0..70_000), cuts in vec(any::<Index>(), 0..4), framing in framing()
    ) {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(record.len() + 1)).collect();
        cuts.extend([0, record.len()]);
        cuts.sort_unstable();
        let parts: Vec<&[u8]> = cuts.windows(2).map(|ends| &record[ends[0]..ends[1]]).collect();
        let mut file = Vec::new();
        LogWriter::new(framing).add_parts(&parts, &mut file);
        prop_assert_eq!(file, framed(framing, &[record]));
    }

    #[test]
    fn truncated_files_yield_their_first_records(
        records in records(), framing in framing(), cut in any::<Index>()
    ) {
        let file = framed(framing, &records);
        let cut = cut.index(file.len() + 1);
        let seen = read(&file[..cut], 9);
        prop_assert_eq!(&seen.records[..], &records[..seen.records.len()]);
        prop_assert!(seen.reasons().iter().all(|reason| reason.is_torn()), "{:?}", seen.dropped);
        prop_assert!(seen.dropped.len() <= 1);
        prop_assert_eq!(seen.end.unwrap().offset, cut as u64);
    }

    #[test]
    fn a_changed_byte_loses_records_but_forges_none(
        records in records(), framing in framing(), at in any::<Index>(), xor in 1..=u8::MAX
    ) {
        let mut file = framed(framing, &records);
        prop_assume!(!file.is_empty());
        let at = at.index(file.len());
        file[at] ^= xor;
        let seen = read(&file, 9);
        prop_assert!(is_subsequence(&seen.records, &records));
        // The records are unchanged only if the changed byte was padding.
        prop_assert_eq!(seen.records.len() < records.len(), !seen.dropped.is_empty());
    }

    #[test]
    fn zeroed_records_are_detected(
        records in records(), framing in framing(), from in any::<Index>(), len in 1..40_000usize
    ) {
        let mut file = framed(framing, &records);
        prop_assume!(!file.is_empty());
        let from = from.index(file.len());
        let to = (from + len).min(file.len());
        file[from..to].fill(0);
        let seen = read(&file, 9);
        prop_assert!(is_subsequence(&seen.records, &records));
        let is_prefix = seen.records[..] == records[..seen.records.len()];
        prop_assert!(is_prefix || !seen.dropped.is_empty());
    }

    #[test]
    fn trailing_zeros_are_unwritten_space(
        records in records(), framing in framing(), zeros in 0..100_000usize
    ) {
        let mut file = framed(framing, &records);
        file.resize(file.len() + zeros, 0);
        let seen = read(&file, 9);
        prop_assert_eq!(&seen.records, &records);
        prop_assert!(seen.dropped.is_empty());
        let end = seen.end.unwrap();
        prop_assert_eq!(end.offset, file.len() as u64);
        // Zeros that fill a block could also be padding.
        prop_assert!((zeros.saturating_sub(HEADER_LEN)..=zeros).contains(&(end.zeros as usize)));
    }

    #[test]
    fn recycled_files_hide_previous_records(old in records(), new in records()) {
        let mut file = framed(Framing::Recyclable { log_number: 8 }, &old);
        let fresh = framed(Framing::Recyclable { log_number: 9 }, &new);
        let shared = file.len().min(fresh.len());
        file[..shared].copy_from_slice(&fresh[..shared]);
        file.extend_from_slice(&fresh[shared..]);
        let seen = read(&file, 9);
        prop_assert_eq!(&seen.records, &new);
    }

    #[test]
    fn reading_hostile_files_terminates(bytes in vec(any::<u8>(), 0..2000)) {
        read(&bytes, 9);
    }

    #[test]
    fn reading_hostile_headers_terminates(
        records in vec((0..140u8, vec(any::<u8>(), 0..60)), 0..30)
    ) {
        let mut file = Vec::new();
        for (kind, payload) in records {
            push_raw(&mut file, kind, &payload);
        }
        read(&file, 9);
    }
}

/// A record of any type with a correct checksum.
fn push_raw(file: &mut Vec<u8>, kind: u8, payload: &[u8]) {
    let mut body = vec![kind];
    body.extend_from_slice(payload);
    let crc = crate::checksum::mask(crate::checksum::crc32c(&body));
    file.extend_from_slice(&crc.to_le_bytes());
    let number_len = if matches!(kind, 5..=8 | 11 | 131) {
        4
    } else {
        0
    };
    let length = u16::try_from(payload.len().saturating_sub(number_len)).unwrap();
    file.extend_from_slice(&length.to_le_bytes());
    file.extend_from_slice(&body);
}

#[test]
fn a_record_has_rocksdbs_bytes() {
    let file = framed(Framing::Legacy, &[b"abc".to_vec()]);
    assert_eq!(file[4..], *b"\x03\0\x01abc");
    let file = framed(Framing::recyclable(0x1_0000_0002), &[b"abc".to_vec()]);
    assert_eq!(file[4..], *b"\x03\0\x05\x02\0\0\0abc");
}

#[test]
fn a_block_with_room_for_a_header_only_gets_an_empty_fragment() {
    let records = [vec![1; BLOCK_LEN - 2 * HEADER_LEN], vec![2; 10]];
    let file = framed(Framing::Legacy, &records);
    assert_eq!(file[BLOCK_LEN - HEADER_LEN..][4..7], [0, 0, 2]);
    assert_eq!(file.len(), BLOCK_LEN + HEADER_LEN + 10);
    assert_eq!(read(&file, 0).records, records);
}

#[test]
fn metadata_records_are_not_fragmented() {
    let predecessor = Predecessor {
        log_number: 7,
        bytes: 1234,
        last_sequence: SequenceNumber(99),
    };
    for framing in [Framing::Legacy, Framing::recyclable(9)] {
        let mut writer = LogWriter::new(framing);
        let mut file = Vec::new();
        writer.add_compression(7, &mut file);
        writer.add_predecessor(&predecessor, &mut file);
        let fill = vec![3; BLOCK_LEN - file.len() - 40];
        writer.add(&fill, &mut file);
        writer.add_timestamp_sizes(&[(1, 8), (70_000, 8), (3, 8), (4, 8), (5, 8)], &mut file);
        writer.add(b"last", &mut file);
        let seen = read(&file, 9);
        assert_eq!(seen.compression, Some(7));
        assert_eq!(seen.predecessor, Some(predecessor));
        assert_eq!(
            seen.timestamp_sizes,
            [(1, 8), (70_000, 8), (3, 8), (4, 8), (5, 8)]
        );
        assert_eq!(seen.records, [fill, b"last".to_vec()]);
        assert_eq!(seen.dropped, []);
    }
}

#[test]
fn the_predecessor_batch_has_no_writes() {
    let predecessor = Predecessor {
        log_number: 7,
        bytes: 1234,
        last_sequence: SequenceNumber(99),
    };
    let bytes = predecessor.as_batch(SequenceNumber(101));
    let batch = BatchRef::parse(&bytes).unwrap();
    batch.check().unwrap();
    assert_eq!((batch.sequence(), batch.count()), (SequenceNumber(101), 0));
    let records: Vec<_> = batch.records().map(Result::unwrap).collect();
    assert!(
        matches!(records[..], [Record::LogData(data)] if data.starts_with(b"cairn.log.before"))
    );
    let read = Predecessor::from_batch(&bytes);
    assert_eq!(read, Some((predecessor, SequenceNumber(101))));
    for cut in 0..bytes.len() {
        assert_eq!(Predecessor::from_batch(&bytes[..cut]), None);
    }
    for at in 8..bytes.len() - Predecessor::LEN {
        let mut other = bytes.clone();
        other[at] ^= 1;
        assert_eq!(Predecessor::from_batch(&other), None, "byte {at}");
    }
}

#[test]
fn damage_is_classified() {
    let one = framed(Framing::Legacy, &[b"one".to_vec()]);
    let behind = |kind: u8, payload: &[u8]| {
        let mut file = one.clone();
        push_raw(&mut file, kind, payload);
        file.extend_from_slice(&framed(Framing::Legacy, &[b"two".to_vec()]));
        read(&file, 9)
    };
    for (kind, payload, reason) in [
        (77, &b"x"[..], Reason::UnknownType(77)),
        (0, b"x", Reason::UnknownType(0)),
        (3, b"x", Reason::MissingStart),
        (4, b"x", Reason::MissingStart),
        (2, b"x", Reason::MissingEnd),
        (5, b"\x09\0\0\0x", Reason::MixedFraming),
        (5, b"\x08\0\0\0x", Reason::OldLogNumber(8)),
        (9, b"\x07\0\0\0", Reason::BadMetadata(9)),
        (10, b"\x01\0\0\0\0\0", Reason::BadMetadata(10)),
        (10, b"\x01\0\0\0\x08", Reason::BadMetadata(10)),
        (130, b"short", Reason::BadMetadata(130)),
    ] {
        let seen = behind(kind, payload);
        assert_eq!(seen.reasons(), [reason]);
        let dropped = seen.dropped[0];
        assert_eq!(dropped.offset, one.len() as u64);
        assert_eq!(dropped.bytes, (HEADER_LEN + payload.len()) as u64);
        assert_eq!(seen.records, [b"one".to_vec(), b"two".to_vec()]);
    }
    let ignored = behind(200, b"from the future");
    assert_eq!(ignored.dropped, []);
    assert_eq!(ignored.records.len(), 2);
}

#[test]
fn reading_continues_in_the_next_block_after_a_bad_checksum() {
    let records = [vec![1; 100], vec![2; 100], vec![3; BLOCK_LEN], vec![4; 100]];
    let mut file = framed(Framing::Legacy, &records);
    file[107 + 50] ^= 1;
    let seen = read(&file, 0);
    assert_eq!(seen.records, [vec![1; 100], vec![4; 100]]);
    assert_eq!(seen.reasons(), [Reason::BadChecksum, Reason::MissingStart]);
    assert_eq!(seen.dropped[0].offset, 107);
    assert_eq!(seen.dropped[0].bytes, (BLOCK_LEN - 107) as u64);
}

#[test]
fn invalid_lengths_are_torn_at_the_end_of_the_file_only() {
    let mut file = framed(Framing::Legacy, &[vec![1; 100], vec![2; BLOCK_LEN]]);
    file[107 + 5] = 0xff;
    assert_eq!(read(&file, 0).reasons()[0], Reason::BadLength);
    assert_eq!(read(&file[..300], 0).reasons(), [Reason::TornBody]);
    assert_eq!(read(&file[..110], 0).reasons(), [Reason::TornHeader]);
}

#[test]
fn incomplete_last_records_of_recycled_files_are_torn() {
    let piece = framed(Framing::recyclable(9), &[vec![1; BLOCK_LEN]]);
    let mut file = piece[..BLOCK_LEN].to_vec();
    file.extend_from_slice(&framed(Framing::recyclable(8), &[b"old".to_vec()]));
    let seen = read(&file, 9);
    assert_eq!(
        seen.reasons(),
        [Reason::TornRecord, Reason::OldLogNumber(8)]
    );
    assert_eq!(seen.dropped[0].bytes, BLOCK_LEN as u64);
}

/// Regression: a recycled log whose first record is damaged was not known as recycled, so that modes which tolerate the end of
/// a recycled log rejected it.
#[test]
fn a_damaged_first_record_tells_whether_the_file_is_recycled() {
    let records = [vec![1; 100], vec![2; 100]];
    for (framing, number, is_recycled) in [
        (Framing::recyclable(9), 9, true),
        (Framing::recyclable(8), 9, false),
        (Framing::Legacy, 9, false),
    ] {
        let mut file = framed(framing, &records[..1]);
        file[50] ^= 1;
        let mut reader = LogReader::new(Bytes(&file), number);
        assert!(matches!(reader.next().unwrap(), Event::Dropped(_)));
        assert_eq!(reader.is_recycled(), is_recycled);
    }
}

#[test]
fn a_lost_page_is_not_the_end_of_the_log() {
    let records: Vec<_> = (1..=200).map(|byte| vec![byte; 200]).collect();
    let mut file = framed(Framing::Legacy, &records);
    // From the start of a record.
    file[207 * 20..207 * 40].fill(0);
    let seen = read(&file, 0);
    assert_eq!(seen.reasons()[0], Reason::Zeroed);
    assert_eq!(seen.dropped[0].offset, 207 * 20);
    assert_eq!(seen.records[..20], records[..20]);
}

#[test]
fn a_last_record_without_header_is_unfinished() {
    for framing in [Framing::Legacy, Framing::recyclable(0)] {
        let records = [vec![1; 100], vec![2; 300], vec![3; 50]];
        let mut file = framed(framing, &records);
        let second = framed(framing, &records[..1]).len();
        file[second..second + 8].fill(0);
        // The rest of the same append is present.
        for zeros in [0, 10, BLOCK_LEN, 3 * BLOCK_LEN] {
            let len = file.len();
            file.resize(len + zeros, 0);
            let seen = read(&file, 0);
            assert_eq!(seen.records, [vec![1; 100]]);
            assert_eq!(seen.reasons(), [Reason::Unfinished]);
            assert_eq!(seen.dropped[0].offset, second as u64);
        }
        // Before the end of the written part, it is damage.
        file.extend_from_slice(&framed(framing, &records[..1]));
        assert_eq!(read(&file, 0).reasons()[0], Reason::Zeroed);
    }
}

#[test]
fn a_lost_sector_is_not_an_unfinished_record() {
    let records: Vec<_> = (1..=20).map(|byte| vec![byte; 200]).collect();
    let mut file = framed(Framing::Legacy, &records);
    file[512..1024].fill(0);
    assert_eq!(read(&file, 0).reasons()[0], Reason::BadChecksum);
    file[207 * 2..512].fill(0);
    file.resize(2 * BLOCK_LEN, 0);
    assert_eq!(read(&file, 0).reasons(), [Reason::Zeroed]);
}

/// Regression: after a power failure, the last record of a mapped log, which is longer than its content, was taken for damage.
#[test]
fn a_record_whose_last_sectors_are_zeros_is_torn() {
    for framing in [Framing::Legacy, Framing::recyclable(0)] {
        for before in [100, 490, 500, 505] {
            let records = [vec![1; before], vec![2; 3000], vec![3; 50]];
            let file = framed(framing, &records[..2]);
            let second = framed(framing, &records[..1]).len();
            // A part of a sector is damaged, not lost.
            let mut part = file.clone();
            part[file.len() - 20..].fill(0);
            assert_eq!(read(&part, 0).reasons(), [Reason::BadChecksum]);
            for cut in (512..file.len()).step_by(512).filter(|&cut| cut > second) {
                let mut torn = file.clone();
                torn[cut..].fill(0);
                for zeros in [0, 10, BLOCK_LEN, 3 * BLOCK_LEN] {
                    torn.resize(file.len() + zeros, 0);
                    let seen = read(&torn, 0);
                    assert_eq!(seen.records, records[..1]);
                    assert_eq!(seen.reasons(), [Reason::TornBody], "{second} {cut} {zeros}");
                    assert_eq!(seen.dropped[0].offset, second as u64);
                }
                // A record after it proves that it is damage.
                torn.resize(2 * BLOCK_LEN, 0);
                torn.extend_from_slice(&framed(framing, &records[2..]));
                assert_eq!(read(&torn, 0).reasons()[0], Reason::BadChecksum);
            }
        }
    }
}

/// A killed process cannot have left a veil with a record after its block: the record has lost
/// fragments, which is reported.
#[test]
fn veils_are_skipped_and_lost_fragments_reported() {
    for framing in [Framing::Legacy, Framing::recyclable(0)] {
        let records = [vec![1; 100], vec![2; 80_000], vec![3; 50]];
        let mut writer = LogWriter::new(framing).with_veils();
        let mut file = Vec::new();
        for record in &records {
            writer.add(record, &mut file);
        }
        let veils = writer.veils().to_vec();
        assert_eq!(veils.len(), 2);
        for (number, veil) in veils.iter().enumerate() {
            let mut now = file.clone();
            now[veil.at..veil.at + 8].copy_from_slice(&veil.head);
            let seen = read(&now, 0);
            let last_piece = number == 1;
            let reasons = match last_piece {
                true => vec![Reason::MissingEnd],
                false => vec![Reason::MissingEnd, Reason::MissingStart],
            };
            assert_eq!(seen.reasons(), reasons);
            assert_eq!(seen.records, [vec![1; 100], vec![3; 50]]);
            // Without anything after it, it is the end of the log.
            now.truncate(veil.end);
            for zeros in [0, BLOCK_LEN] {
                now.resize(now.len() + zeros, 0);
                let seen = read(&now, 0);
                assert_eq!(seen.reasons(), [Reason::Unfinished]);
                assert_eq!(seen.records, [vec![1; 100]]);
            }
        }
    }
}

/// A record that starts in the last bytes of a sector has only zeros there until it is complete.
#[test]
fn unfinished_records_start_anywhere_in_a_sector() {
    for back in 0..40 {
        let before = vec![1; 512 - back - HEADER_LEN];
        let mut file = framed(Framing::Legacy, &[before.clone(), vec![2; 300]]);
        let at = 512 - back;
        file[at..at + 8].fill(0);
        for cut in (at + 9..file.len()).step_by(5) {
            let mut now = file[..cut].to_vec();
            now.resize(2 * BLOCK_LEN, 0);
            let seen = read(&now, 0);
            assert_eq!(seen.records, [before.as_slice()]);
            assert_eq!(seen.reasons(), [Reason::Unfinished]);
        }
    }
}

/// A reader of a live log may see a record's payload before its header, and later content after
/// that; it must not treat the record as damaged.
#[test]
fn records_completed_while_reading_are_returned() {
    let records: Vec<_> = (1..=400).map(|byte| vec![byte as u8 | 1; 200]).collect();
    let file = framed(Framing::Legacy, &records);
    let mut reads = 0;
    let source = |offset: u64, buf: &mut [u8]| {
        reads += 1;
        let mut now = file.clone();
        if reads == 1 {
            now[207 * 10..207 * 10 + 8].fill(0);
        }
        let got = super::reader::Source::read_at(&mut Bytes(&now), offset, buf)?;
        Ok(got)
    };
    let mut reader = LogReader::new(source, 0);
    let mut found = Vec::new();
    while let Event::Record { payload, .. } = reader.next().unwrap() {
        found.push(payload.to_vec());
    }
    assert!(found == records);
}

#[test]
fn recovery_modes_match_rocksdb() {
    use RecoveryMode::*;
    use Verdict::*;
    let rows = [
        // Reason, recycled, and the verdict in each mode.
        (Reason::TornBody, false, [EndOfLog, Fail, Stop, EndOfLog]),
        (Reason::TornRecord, true, [EndOfLog, Fail, Stop, EndOfLog]),
        (
            Reason::Unfinished,
            false,
            [EndOfLog, EndOfLog, Stop, EndOfLog],
        ),
        (Reason::BadChecksum, false, [Fail, Fail, Stop, Skip]),
        (Reason::BadChecksum, true, [EndOfLog, Fail, Stop, Skip]),
        (Reason::UnknownType(50), false, [Fail, Fail, Stop, Skip]),
        (
            Reason::OldLogNumber(3),
            true,
            [EndOfLog, EndOfLog, Stop, Skip],
        ),
    ];
    let modes = [
        TolerateCorruptedTailRecords,
        AbsoluteConsistency,
        PointInTimeRecovery,
        SkipAnyCorruptedRecords,
    ];
    for (reason, recycled, verdicts) in rows {
        assert_eq!(modes.map(|mode| mode.judge(reason, recycled)), verdicts);
    }
    for (number, mode) in (0..).zip(modes) {
        assert_eq!(RecoveryMode::from_u8(number), Some(mode));
    }
    assert_eq!(RecoveryMode::from_u8(4), None);
    assert_eq!(RecoveryMode::default(), PointInTimeRecovery);
}

#[test]
fn source_errors_are_not_the_end() {
    let file = framed(Framing::Legacy, &[vec![1; 3 * BLOCK_LEN]]);
    let mut reader = LogReader::new(
        |offset: u64, buf: &mut [u8]| {
            if offset > 0 {
                return Err(cairn_types::Error::io_text("the disk is gone"));
            }
            Bytes(&file).read_at(offset, buf)
        },
        0,
    );
    assert!(reader.next().is_err());
}

#[test]
fn followers_continue_after_the_last_complete_record() {
    let records = [vec![1; 100], vec![2; BLOCK_LEN], vec![3; 50]];
    let file = framed(Framing::Legacy, &records);
    let mut reader = LogReader::new(Bytes(&file[..300]), 0);
    assert!(matches!(reader.next(), Ok(Event::Record { .. })));
    assert!(matches!(reader.next(), Ok(Event::Dropped(_))));
    let at = reader.whole_up_to();
    assert_eq!(at, 107);
    let mut reader = LogReader::starting_at(Bytes(&file), 0, at);
    for expected in &records[1..] {
        let Event::Record { payload, .. } = reader.next().unwrap() else {
            panic!("a record was expected");
        };
        assert_eq!(payload, expected);
    }
    assert!(matches!(reader.next(), Ok(Event::End(_))));
}
