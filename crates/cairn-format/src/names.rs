//! The names of the files in a database directory, and what CURRENT and IDENTITY say.
//!
//! ```text
//! CURRENT  IDENTITY  LOCK  LOG  LOG.old.1700000000000000
//! MANIFEST-000004  OPTIONS-000007  OPTIONS-000007.dbtmp  000004.dbtmp  METADB-000003
//! 000005.log  000008.sst  000008.ldb  000009.blob  COMPACTION_PROGRESS-1700000000000000
//! ```
//!
//! Numbers are printed with at least six digits and read with any count of them, so two names may
//! carry one number: who removes a file takes the name from the directory, not from the number.
//! A name that is not on this list belongs to somebody else; it is neither used nor removed.

use std::fmt;

use cairn_types::{Decoded, FileNumber, Malformed};

/// The file that names the current MANIFEST.
pub const CURRENT: &str = "CURRENT";
/// The file that holds the database's id.
pub const IDENTITY: &str = "IDENTITY";
/// The file whose lock the writing process holds.
pub const LOCK: &str = "LOCK";
/// The text log for people.
pub const INFO_LOG: &str = "LOG";
/// The directory below the WAL directory that keeps WALs no longer needed by recovery.
pub const ARCHIVE_DIR: &str = "archive";

/// Bytes of a CURRENT or IDENTITY file beyond which it is refused unread.
pub const MAX_TEXT_FILE_LEN: usize = 64 << 10;

/// A file of a database, as its name says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileName {
    /// `CURRENT`.
    Current,
    /// `IDENTITY`.
    Identity,
    /// `LOCK`.
    Lock,
    /// `MANIFEST-000004`.
    Manifest(FileNumber),
    /// `000005.log`, a write-ahead log.
    Wal(FileNumber),
    /// `000008.sst`.
    Table(FileNumber),
    /// `000008.ldb`: a table under the name that LevelDB gave it. Read, never written.
    LegacyTable(FileNumber),
    /// `000009.blob`.
    Blob(FileNumber),
    /// `OPTIONS-000007`.
    Options(FileNumber),
    /// `OPTIONS-000007.dbtmp`: an OPTIONS file before its rename.
    OptionsTemp(FileNumber),
    /// `000004.dbtmp`: a CURRENT or IDENTITY before its rename.
    Temp(FileNumber),
    /// `LOG`.
    InfoLog,
    /// `LOG.old.<microseconds since 1970>`.
    OldInfoLog(u64),
    /// `METADB-000003`: reserved by RocksDB.
    MetaDb(FileNumber),
    /// `COMPACTION_PROGRESS-<timestamp>`.
    CompactionProgress(u64),
}

impl FileName {
    /// What `name`, a single path component, is; `None` if no database has such a file.
    #[must_use]
    pub fn parse(name: &str) -> Option<FileName> {
        use FileName::*;
        if name.starts_with(|first: char| first.is_ascii_digit()) {
            return FileName::parse_numbered(name);
        }
        match name {
            CURRENT => return Some(Current),
            IDENTITY => return Some(Identity),
            LOCK => return Some(Lock),
            INFO_LOG => return Some(InfoLog),
            _ => {}
        }
        if let Some(rest) = name.strip_prefix("MANIFEST-") {
            return Some(Manifest(number(rest)?));
        }
        if let Some(rest) = name.strip_prefix("OPTIONS-") {
            return Some(match rest.strip_suffix(".dbtmp") {
                Some(digits) => OptionsTemp(number(digits)?),
                None => Options(number(rest)?),
            });
        }
        if let Some(rest) = name.strip_prefix("METADB-") {
            return Some(MetaDb(number(rest)?));
        }
        if let Some(rest) = name.strip_prefix("COMPACTION_PROGRESS-") {
            return Some(CompactionProgress(decimal(rest)?));
        }
        let rest = name.strip_prefix("LOG.old.")?;
        Some(OldInfoLog(decimal(rest)?))
    }

    /// What `name` is if it begins with a digit, as most names in a database do.
    fn parse_numbered(name: &str) -> Option<FileName> {
        use FileName::*;
        let digits = name.bytes().take_while(u8::is_ascii_digit).count();
        let (digits, suffix) = name.split_at(digits);
        let kind: fn(FileNumber) -> FileName = match suffix {
            ".log" => Wal,
            ".sst" => Table,
            ".ldb" => LegacyTable,
            ".blob" => Blob,
            ".dbtmp" => Temp,
            _ => return None,
        };
        Some(kind(FileNumber(digits.parse().ok()?)))
    }

    /// The number in the name, of the kinds that take theirs from the common counter.
    #[must_use]
    pub fn number(self) -> Option<FileNumber> {
        use FileName::*;
        match self {
            Manifest(n) | Wal(n) | Table(n) | LegacyTable(n) | Blob(n) | Options(n)
            | OptionsTemp(n) | Temp(n) => Some(n),
            Current
            | Identity
            | Lock
            | InfoLog
            | OldInfoLog(_)
            | MetaDb(_)
            | CompactionProgress(_) => None,
        }
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use FileName::*;
        match self {
            Current => f.write_str(CURRENT),
            Identity => f.write_str(IDENTITY),
            Lock => f.write_str(LOCK),
            Manifest(n) => write!(f, "MANIFEST-{n}"),
            Wal(n) => write!(f, "{n}.log"),
            Table(n) => write!(f, "{n}.sst"),
            LegacyTable(n) => write!(f, "{n}.ldb"),
            Blob(n) => write!(f, "{n}.blob"),
            Options(n) => write!(f, "OPTIONS-{n}"),
            OptionsTemp(n) => write!(f, "OPTIONS-{n}.dbtmp"),
            Temp(n) => write!(f, "{n}.dbtmp"),
            InfoLog => f.write_str(INFO_LOG),
            OldInfoLog(micros) => write!(f, "LOG.old.{micros}"),
            MetaDb(n) => write!(f, "METADB-{n}"),
            CompactionProgress(at) => write!(f, "COMPACTION_PROGRESS-{at}"),
        }
    }
}

/// The name of WAL `number`.
#[must_use]
pub fn wal(number: FileNumber) -> String {
    FileName::Wal(number).to_string()
}

/// The name of table `number`. Made without the formatter: an opening names every table.
#[must_use]
pub fn table(number: FileNumber) -> String {
    const SUFFIX: &[u8] = b".sst";
    let mut name = *b"00000000000000000000.sst";
    let digits_end = name.len() - SUFFIX.len();
    let (mut at, mut rest) = (digits_end, number.0);
    while rest > 0 {
        at -= 1;
        // A digit.
        name[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    let begin = at.min(digits_end - 6);
    String::from_utf8_lossy(&name[begin..]).into_owned()
}

/// The name of blob file `number`.
#[must_use]
pub fn blob(number: FileNumber) -> String {
    FileName::Blob(number).to_string()
}

/// The name of MANIFEST `number`.
#[must_use]
pub fn manifest(number: FileNumber) -> String {
    FileName::Manifest(number).to_string()
}

/// The prefix of info logs that lie in a directory of their own (`db_log_dir`): the path of the
/// database with every character but letters, digits, `-`, `.` and `_` replaced by `_`, then
/// `_LOG`. A leading slash leaves no trace.
#[must_use]
pub fn info_log_prefix(database: &str) -> String {
    let path = database.strip_prefix('/').unwrap_or(database);
    let mut prefix: String = path
        .chars()
        .map(|c| match c {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '.' | '_' => c,
            _ => '_',
        })
        .collect();
    prefix.push_str("_LOG");
    prefix
}

/// The content of a CURRENT file that names MANIFEST `number`.
#[must_use]
pub fn encode_current(number: FileNumber) -> String {
    format!("{}\n", FileName::Manifest(number))
}

/// The number of the MANIFEST that a CURRENT file names.
///
/// # Errors
///
/// [`Malformed`] unless the content is the name of a MANIFEST, as Cairn would print it, and one
/// line feed. A path, a second line or another file's name is refused.
pub fn decode_current(content: &[u8]) -> Decoded<FileNumber> {
    let Some((b'\n', name)) = content.split_last() else {
        return Err(Malformed::at(
            content.len(),
            "CURRENT does not end with a line feed",
        ));
    };
    let parsed = std::str::from_utf8(name).ok().and_then(|text| {
        let parsed = FileName::parse(text)?;
        (parsed.to_string() == text).then_some(parsed)
    });
    match parsed {
        Some(FileName::Manifest(number)) => Ok(number),
        _ => Err(Malformed::at(0, "CURRENT does not name a MANIFEST")),
    }
}

/// The database id that an IDENTITY file holds, without a line feed at its end.
///
/// # Errors
///
/// [`Malformed`] if it is empty or no text.
pub fn decode_identity(content: &[u8]) -> Decoded<String> {
    let id = content.strip_suffix(b"\n").unwrap_or(content);
    if id.is_empty() {
        return Err(Malformed::at(0, "IDENTITY is empty"));
    }
    match std::str::from_utf8(id) {
        Ok(id) => Ok(id.to_owned()),
        Err(error) => Err(Malformed::at(error.valid_up_to(), "IDENTITY is not text")),
    }
}

fn number(digits: &str) -> Option<FileNumber> {
    decimal(digits).map(FileNumber)
}

/// Digits only: `str::parse` would take a sign.
fn decimal(digits: &str) -> Option<u64> {
    if !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_name() -> impl Strategy<Value = FileName> {
        use FileName::*;
        (0usize..15, any::<u64>()).prop_map(|(kind, n)| {
            let number = FileNumber(n);
            match kind {
                0 => Current,
                1 => Identity,
                2 => Lock,
                3 => Manifest(number),
                4 => Wal(number),
                5 => Table(number),
                6 => LegacyTable(number),
                7 => Blob(number),
                8 => Options(number),
                9 => OptionsTemp(number),
                10 => Temp(number),
                11 => InfoLog,
                12 => OldInfoLog(n),
                13 => MetaDb(number),
                _ => CompactionProgress(n),
            }
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn a_printed_name_reads_as_itself(name in any_name()) {
            prop_assert_eq!(FileName::parse(&name.to_string()), Some(name));
        }

        #[test]
        fn a_table_is_named_as_it_is_printed(number in any::<u64>(), shift in 0u32..64) {
            for number in [number >> shift, 0, 999_999, 1_000_000, u64::MAX] {
                let number = FileNumber(number);
                prop_assert_eq!(table(number), FileName::Table(number).to_string());
            }
        }

        #[test]
        fn any_text_is_parsed_or_not_but_never_panics(text in "\\PC{0,40}") {
            let _ = FileName::parse(&text);
            let _ = decode_current(text.as_bytes());
        }
    }

    #[test]
    fn numbers_have_six_digits_or_more_and_are_read_with_any() {
        assert_eq!(FileName::Wal(FileNumber(7)).to_string(), "000007.log");
        assert_eq!(
            FileName::Table(FileNumber(12_345_678)).to_string(),
            "12345678.sst"
        );
        assert_eq!(
            FileName::parse("7.sst"),
            Some(FileName::Table(FileNumber(7)))
        );
        assert_eq!(
            FileName::parse("18446744073709551615.blob"),
            Some(FileName::Blob(FileNumber(u64::MAX)))
        );
    }

    #[test]
    fn names_of_others_are_nobodys() {
        for name in [
            "",
            ".",
            "..",
            "000001",
            "000001.",
            ".sst",
            "+1.sst",
            "-1.log",
            "1.sst.bak",
            "1.SST",
            " 1.sst",
            "18446744073709551616.sst",
            "MANIFEST-",
            "MANIFEST-1x",
            "MANIFEST-../1",
            "OPTIONS-1.tmp",
            "OPTIONS-.dbtmp",
            "LOG.old.",
            "LOG.old",
            "LOG.",
            "current",
            "CURRENT\n",
            "a/000001.sst",
            "\u{0663}.sst",
        ] {
            assert_eq!(FileName::parse(name), None, "{name:?}");
        }
    }

    #[test]
    fn current_names_one_manifest_and_ends_its_line() {
        assert_eq!(encode_current(FileNumber(5)), "MANIFEST-000005\n");
        assert_eq!(decode_current(b"MANIFEST-000005\n"), Ok(FileNumber(5)));
        for bad in [
            &b""[..],
            b"\n",
            b"MANIFEST-000005",
            b"MANIFEST-5\n",
            b"MANIFEST-000005\n\n",
            b"MANIFEST-000005\r\n",
            b"../MANIFEST-000005\n",
            b"000005.log\n",
            b"MANIFEST-\xff\n",
        ] {
            assert!(decode_current(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn identity_is_text_and_not_empty() {
        assert_eq!(decode_identity(b"an-id"), Ok("an-id".to_owned()));
        assert_eq!(decode_identity(b"an-id\n"), Ok("an-id".to_owned()));
        assert!(decode_identity(b"").is_err());
        assert!(decode_identity(b"\n").is_err());
        assert!(decode_identity(b"\xff").is_err());
    }

    #[test]
    fn info_logs_elsewhere_carry_the_path_of_their_database() {
        assert_eq!(info_log_prefix("/data/my db"), "data_my_db_LOG");
    }
}
