//! The names of files in a database directory, and the content of CURRENT and IDENTITY.
//!
//! ```text
//! CURRENT  IDENTITY  LOCK  LOG  LOG.old.1700000000000000
//! MANIFEST-000004  OPTIONS-000007  OPTIONS-000007.dbtmp  000004.dbtmp  METADB-000003
//! 000005.log  000008.sst  000008.ldb  000009.blob  COMPACTION_PROGRESS-1700000000000000
//! ```
//!
//! Numbers are formatted with at least six digits but parsed with any number of digits, so two
//! names may have the same number: to delete a file, use its name in the directory. Files with
//! other names do not belong to the database and are neither used nor deleted.

use std::fmt;

use cairn_types::{Decoded, FileNumber, Malformed};

/// The file that contains the name of the current MANIFEST.
pub const CURRENT: &str = "CURRENT";
/// The file that contains the database id.
pub const IDENTITY: &str = "IDENTITY";
/// The file locked by the process that has the database open for writing.
pub const LOCK: &str = "LOCK";
/// The info log.
pub const INFO_LOG: &str = "LOG";
/// The subdirectory of the WAL directory for archived WALs.
pub const ARCHIVE_DIR: &str = "archive";

/// The maximum length of a CURRENT or IDENTITY file.
pub const MAX_TEXT_FILE_LEN: usize = 64 << 10;

/// The type and number of a file, according to its name.
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
    /// `000008.ldb`: a table named by LevelDB. Read, but never written.
    LegacyTable(FileNumber),
    /// `000009.blob`.
    Blob(FileNumber),
    /// `OPTIONS-000007`.
    Options(FileNumber),
    /// `OPTIONS-000007.dbtmp`: an OPTIONS file before it is renamed.
    OptionsTemp(FileNumber),
    /// `000004.dbtmp`: a CURRENT or IDENTITY file before it is renamed.
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
    /// Parses `name`, a single path component. Returns `None` if it is not a name of a database file.
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

    /// Parses a name that starts with a digit.
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

    /// The file number, for types that use the common counter.
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

/// The file name of WAL `number`.
#[must_use]
pub fn wal(number: FileNumber) -> String {
    FileName::Wal(number).to_string()
}

/// The file name of table `number`. Formatted by hand, because opening a database generates one for each
/// table.
#[must_use]
pub fn table(number: FileNumber) -> String {
    const SUFFIX: &[u8] = b".sst";
    let mut name = *b"00000000000000000000.sst";
    let digits_end = name.len() - SUFFIX.len();
    let (mut at, mut rest) = (digits_end, number.0);
    while rest > 0 {
        at -= 1;
        name[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    let begin = at.min(digits_end - 6);
    String::from_utf8_lossy(&name[begin..]).into_owned()
}

/// The file name of blob file `number`.
#[must_use]
pub fn blob(number: FileNumber) -> String {
    FileName::Blob(number).to_string()
}

/// The file name of MANIFEST `number`.
#[must_use]
pub fn manifest(number: FileNumber) -> String {
    FileName::Manifest(number).to_string()
}

/// The prefix of info logs in a separate directory (`db_log_dir`): the path of the database without
/// its leading slash, with all characters other than letters, digits, `-`, `.` and `_` replaced
/// with `_`, followed by `_LOG`.
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

/// The content of CURRENT for MANIFEST `number`.
#[must_use]
pub fn encode_current(number: FileNumber) -> String {
    format!("{}\n", FileName::Manifest(number))
}

/// The number of the MANIFEST in the content of CURRENT.
///
/// # Errors
///
/// [`Malformed`] unless the content is the canonical name of a MANIFEST, followed by a line feed. A path, a
/// second line or another file's name is rejected.
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

/// The database id in the content of IDENTITY, without a trailing line feed.
///
/// # Errors
///
/// [`Malformed`] if it is empty or not UTF-8.
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

/// Digits only: `str::parse` accepts a sign.
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
        fn names_round_trip(name in any_name()) {
            prop_assert_eq!(FileName::parse(&name.to_string()), Some(name));
        }

        #[test]
        fn table_names_equal_the_formatted_ones(number in any::<u64>(), shift in 0u32..64) {
            for number in [number >> shift, 0, 999_999, 1_000_000, u64::MAX] {
                let number = FileNumber(number);
                prop_assert_eq!(table(number), FileName::Table(number).to_string());
            }
        }

        #[test]
        fn parsing_names_never_panics(text in "\\PC{0,40}") {
            let _ = FileName::parse(&text);
            let _ = decode_current(text.as_bytes());
        }
    }

    #[test]
    fn numbers_have_at_least_six_digits() {
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
    fn other_names_are_not_parsed() {
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
    fn current_is_a_manifest_name_and_a_line_feed() {
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
    fn separate_info_logs_include_the_database_path() {
        assert_eq!(info_log_prefix("/data/my db"), "data_my_db_LOG");
    }
}
