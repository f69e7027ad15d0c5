//! The metadata file of a backup: a text that lists the files of one backup, and the names of these files.
//!
//! ```text
//! schema_version 2.1                              only in schema 2
//! 1795269642                                      seconds since 1970
//! 422                                             sequence number
//! metadata 676F6C64                               bytes of the application in hexadecimal, if there are any
//! 2                                               number of files
//! shared_checksum/000015_s6P5DEN43DTES4EAW9IF0_9235.sst crc32 1650826055
//! private/2/CURRENT crc32 2659179228
//! shared_checksum/000016_1_2.sst ni::excluded true      only in schema 2; not counted
//! // FOOTER                                       only in schema 2, with further fields
//! ```
//!
//! The checksum is an unmasked CRC-32C in decimal. In schema 2, a file may also have `size`, `temp` and unknown
//! fields, and its checksum may be missing. Unknown fields are ignored unless they begin with `ni::`.
//!
//! The paths are relative to the directory of the backups. No other path than those of the types below is
//! accepted, so that a metadata file cannot refer to anything outside.

use std::collections::HashSet;
use std::fmt::{self, Write as _};

use cairn_types::{Decoded, Malformed};

use crate::names::FileName;

/// The directory of files that belong to one backup each.
pub const PRIVATE_DIR: &str = "private";
/// The directory of shared files under their own names.
pub const SHARED_DIR: &str = "shared";
/// The directory of shared files whose names contain a checksum or a session id.
pub const SHARED_CHECKSUM_DIR: &str = "shared_checksum";
/// The directory of the metadata files, which are named by the ids of the backups.
pub const META_DIR: &str = "meta";

/// The start of the first line in schema 2.
const SCHEMA_VERSION: &str = "schema_version ";
/// The version that is written for schema 2.
const SCHEMA_TWO: &str = "2.1";
/// The field with the bytes of the application.
const APP_METADATA: &str = "metadata";
/// The field with the checksum of a file. It is a CRC-32C.
const CHECKSUM: &str = "crc32";
/// The field with the length of a file.
const SIZE: &str = "size";
/// The field with the temperature of a file.
const TEMPERATURE: &str = "temp";
/// The field that marks a file that is not in the directory.
const EXCLUDED: &str = "ni::excluded";
/// The prefix of fields that must be understood.
const REQUIRED: &str = "ni::";
/// The line before the fields at the end.
const FOOTER: &str = "// FOOTER";

/// The names of temperatures, with RocksDB's numbers.
const TEMPERATURES: [(&str, u8); 6] = [
    ("kUnknown", 0),
    ("kHot", 4),
    ("kWarm", 8),
    ("kCool", 10),
    ("kCold", 12),
    ("kIce", 16),
];

/// The version of the format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Schema {
    /// Read by all versions of RocksDB.
    #[default]
    One,
    /// With excluded files and temperatures.
    Two,
}

/// The directory of a file of a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BackupDir {
    /// `private/<id>`.
    Private(u32),
    /// `shared`.
    Shared,
    /// `shared_checksum`.
    SharedChecksum,
}

impl fmt::Display for BackupDir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BackupDir::Private(id) => write!(f, "{PRIVATE_DIR}/{id}"),
            BackupDir::Shared => f.write_str(SHARED_DIR),
            BackupDir::SharedChecksum => f.write_str(SHARED_CHECKSUM_DIR),
        }
    }
}

/// The path of a file of a backup, relative to the directory of the backups.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BackupPath {
    dir: BackupDir,
    name: Box<str>,
}

impl BackupPath {
    /// Returns the path of the file `name` in `dir`; `None` if it cannot be a file of a backup there.
    #[must_use]
    pub fn new(dir: BackupDir, name: &str) -> Option<BackupPath> {
        let path = BackupPath {
            dir,
            name: name.into(),
        };
        let plain = name
            .bytes()
            .all(|b| b.is_ascii_graphic() && b != b'/' && b != b'\\');
        let kind = FileName::parse(&path.database_name())?;
        let data = matches!(
            kind,
            FileName::Table(_) | FileName::LegacyTable(_) | FileName::Blob(_)
        );
        let allowed = match dir {
            BackupDir::Private(id) => {
                id != 0
                    && (data
                        || matches!(
                            kind,
                            FileName::Current
                                | FileName::Identity
                                | FileName::Manifest(_)
                                | FileName::Options(_)
                                | FileName::Wal(_)
                        ))
            }
            BackupDir::Shared | BackupDir::SharedChecksum => data,
        };
        (plain && allowed).then_some(path)
    }

    /// Parses a path; `None` if it cannot be that of a file of a backup.
    #[must_use]
    pub fn parse(text: &str) -> Option<BackupPath> {
        let (dir, name) = text.rsplit_once('/')?;
        let dir = match dir {
            SHARED_DIR => BackupDir::Shared,
            SHARED_CHECKSUM_DIR => BackupDir::SharedChecksum,
            _ => {
                let id = dir.strip_prefix(PRIVATE_DIR)?.strip_prefix('/')?;
                BackupDir::Private(parse_id(id)?)
            }
        };
        BackupPath::new(dir, name)
    }

    /// The directory.
    #[must_use]
    pub fn dir(&self) -> BackupDir {
        self.dir
    }

    /// The name in the directory.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The name of the file in a database: without the checksum, session id and size between the number and the
    /// suffix of files in `shared_checksum`.
    #[must_use]
    pub fn database_name(&self) -> String {
        if self.dir == BackupDir::SharedChecksum
            && let Some((number, rest)) = self.name.split_once('_')
            && let Some((_, suffix)) = rest.rsplit_once('.')
        {
            return format!("{number}.{suffix}");
        }
        self.name.to_string()
    }

    /// The type and number of the file.
    ///
    /// # Panics
    ///
    /// Never: the name was parsed by [`BackupPath::new`].
    #[must_use]
    pub fn kind(&self) -> FileName {
        FileName::parse(&self.database_name()).expect("the name was parsed before")
    }

    /// True if other backups may refer to the file.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        !matches!(self.dir, BackupDir::Private(_))
    }
}

impl fmt::Display for BackupPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.dir, self.name)
    }
}

/// Returns the name in `shared_checksum` of the database file `name` (`000007.sst`), with `detail` between number
/// and suffix: `s<session id>`, `s<session id>_<size>`, or `<checksum>_<size>`. `None` if `name` is not that of a
/// table or blob file, or the result not that of a file of a backup.
#[must_use]
pub fn shared_checksum_path(name: &str, detail: impl fmt::Display) -> Option<BackupPath> {
    let (number, suffix) = name.rsplit_once('.')?;
    BackupPath::new(
        BackupDir::SharedChecksum,
        &format!("{number}_{detail}.{suffix}"),
    )
}

/// Parses the id of a backup: a positive decimal number without leading zeros.
#[must_use]
pub fn parse_id(digits: &str) -> Option<u32> {
    let canonical = !digits.starts_with('0') && digits.bytes().all(|b| b.is_ascii_digit());
    match canonical {
        true => digits.parse().ok(),
        false => None,
    }
}

/// A file of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupFile {
    /// Its path.
    pub path: BackupPath,
    /// Its CRC-32C, if known.
    pub crc32c: Option<u32>,
    /// Its length in bytes, if recorded.
    pub size: Option<u64>,
    /// RocksDB's number for the temperature of its storage; 0 for unknown.
    pub temperature: u8,
}

/// The content of a metadata file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackupMeta {
    /// The version of the format.
    pub schema: Schema,
    /// The time of the backup in seconds since 1970.
    pub timestamp: i64,
    /// A sequence number up to which the backup has all writes.
    pub sequence: u64,
    /// Bytes of the application.
    pub app_metadata: Vec<u8>,
    /// The files.
    pub files: Vec<BackupFile>,
    /// Files that are necessary for a restore but not part of the backup.
    pub excluded: Vec<BackupPath>,
}

impl BackupMeta {
    /// Returns the content of the metadata file. Files without checksum, and all fields that schema 1 does not have,
    /// require schema 2.
    ///
    /// # Panics
    ///
    /// If schema 1 cannot express the backup.
    #[must_use]
    pub fn encode(&self) -> String {
        let mut text = String::new();
        if self.schema == Schema::Two {
            text += SCHEMA_VERSION;
            text += SCHEMA_TWO;
            text.push('\n');
        }
        // Writing to a string does not fail, here and below.
        let _ = write!(text, "{}\n{}\n", self.timestamp as u64, self.sequence);
        if !self.app_metadata.is_empty() {
            text += APP_METADATA;
            text.push(' ');
            for byte in &self.app_metadata {
                let _ = write!(text, "{byte:02X}");
            }
            text.push('\n');
        }
        let _ = writeln!(text, "{}", self.files.len());
        for file in &self.files {
            let _ = write!(text, "{}", file.path);
            if let Some(crc) = file.crc32c {
                let _ = write!(text, " {CHECKSUM} {crc}");
            }
            let complete = file.crc32c.is_some() && file.size.is_none();
            assert!(
                self.schema == Schema::Two || complete,
                "schema 1 has a checksum of each file and nothing else"
            );
            if self.schema == Schema::Two && file.temperature != 0 {
                let name = temperature_name(file.temperature);
                let _ = write!(text, " {TEMPERATURE} {name}");
            }
            if let Some(size) = file.size {
                let _ = write!(text, " {SIZE} {size}");
            }
            text.push('\n');
        }
        assert!(
            self.schema == Schema::Two || self.excluded.is_empty(),
            "schema 1 has no excluded files"
        );
        for path in &self.excluded {
            let _ = writeln!(text, "{path} {EXCLUDED} true");
        }
        text
    }

    /// Decodes the metadata file of backup `id`.
    ///
    /// # Errors
    ///
    /// [`Malformed`], unsupported for an unknown schema and for unknown fields that must be understood.
    pub fn decode(content: &[u8], id: u32) -> Decoded<BackupMeta> {
        let mut lines = Lines { content, at: 0 };
        let mut meta = BackupMeta::default();
        let mut line = lines.required("the time of the backup")?;
        if let Some(version) = line.text.strip_prefix(SCHEMA_VERSION) {
            if version != "2" && !version.starts_with("2.") {
                return Err(Malformed::unsupported(
                    line.at + SCHEMA_VERSION.len(),
                    format!("schema version: expected 2, found {version:?}"),
                ));
            }
            meta.schema = Schema::Two;
            line = lines.required("the time of the backup")?;
        }
        meta.timestamp = line.number("time of the backup")? as i64;
        meta.sequence = lines
            .required("a sequence number")?
            .number("sequence number")?;
        let count = meta.decode_header(&mut lines)?;
        meta.decode_files(&mut lines, id)?;
        match meta.files.len() as u64 == count.0 {
            true => Ok(meta),
            false => Err(Malformed::mismatch(
                count.1,
                "number of files",
                meta.files.len(),
                count.0,
            )),
        }
    }

    /// Decodes the fields before the files. Returns the number of files and its offset.
    fn decode_header(&mut self, lines: &mut Lines<'_>) -> Decoded<(u64, usize)> {
        loop {
            let line = lines.required("the number of files")?;
            if line.text.starts_with(|first: char| first.is_ascii_digit()) {
                return Ok((line.number("number of files")?, line.at));
            }
            let Some((field, value)) = line.text.split_once(' ') else {
                return Err(line.mismatch("line", "the number of files or a field"));
            };
            if field == APP_METADATA {
                self.app_metadata = decode_hex(value, line.at + field.len() + 1)?;
            } else if self.schema == Schema::One {
                return Err(line.mismatch("field", APP_METADATA));
            } else {
                ignorable(field, line.at)?;
            }
        }
    }

    /// Decodes the list of files and the fields after it.
    fn decode_files(&mut self, lines: &mut Lines<'_>, id: u32) -> Decoded<()> {
        let mut names = HashSet::new();
        while let Some(line) = lines.next()? {
            if self.schema == Schema::Two && line.text == FOOTER {
                return decode_footer(lines);
            }
            let mut words = line.words();
            let (_, path) = words.next().unwrap_or((line.at, ""));
            let parsed = BackupPath::parse(path).filter(|path| match path.dir() {
                BackupDir::Private(of) => of == id,
                _ => true,
            });
            let Some(path) = parsed else {
                return Err(Malformed::mismatch(
                    line.at,
                    "path of a file",
                    format_args!("a file of backup {id}"),
                    format_args!("{path:?}"),
                ));
            };
            if !names.insert(path.database_name()) {
                return Err(Malformed::at(
                    line.at,
                    format!("the backup has two files {}", path.database_name()),
                ));
            }
            let mut file = BackupFile {
                path,
                crc32c: None,
                size: None,
                temperature: 0,
            };
            match self.decode_fields(&mut file, words, line)? {
                true => self.excluded.push(file.path),
                false => self.files.push(file),
            }
        }
        Ok(())
    }

    /// Decodes the fields of `file`. Returns true if it is excluded.
    fn decode_fields<'a>(
        &self,
        file: &mut BackupFile,
        mut words: impl Iterator<Item = (usize, &'a str)>,
        line: Line<'_>,
    ) -> Decoded<bool> {
        let mut excluded = false;
        let mut fields = 0;
        while let Some((at, field)) = words.next() {
            let Some((value_at, value)) = words.next() else {
                return Err(Malformed::at(at, format!("field {field:?} has no value")));
            };
            fields += 1;
            if self.schema == Schema::One && (field != CHECKSUM || fields > 1) {
                return Err(Malformed::mismatch(
                    at,
                    "field of a file",
                    format_args!("only {CHECKSUM}"),
                    format_args!("{field:?}"),
                ));
            }
            match field {
                CHECKSUM => {
                    let crc = u32::try_from(number(value, value_at, "checksum")?);
                    let crc = crc.map_err(|_| {
                        Malformed::mismatch(
                            value_at,
                            "checksum",
                            "32 bits",
                            format_args!("{value:?}"),
                        )
                    })?;
                    file.crc32c = Some(crc);
                }
                SIZE => file.size = Some(number(value, value_at, "size")?),
                TEMPERATURE => {
                    // An unknown name is a temperature of a later version, and only a hint.
                    let known = TEMPERATURES.iter().find(|(name, _)| *name == value);
                    file.temperature = known.map_or(0, |known| known.1);
                }
                EXCLUDED => {
                    excluded = match value {
                        "true" => true,
                        "false" => false,
                        _ => {
                            return Err(Malformed::unsupported(
                                value_at,
                                format!("{EXCLUDED}: expected true or false, found {value:?}"),
                            ));
                        }
                    }
                }
                _ => ignorable(field, at)?,
            }
        }
        if self.schema == Schema::One && fields == 0 {
            return Err(line.mismatch("line", "a file and its checksum"));
        }
        Ok(excluded)
    }
}

/// Decodes the fields after the files.
fn decode_footer(lines: &mut Lines<'_>) -> Decoded<()> {
    while let Some(line) = lines.next()? {
        let Some((field, _)) = line.text.split_once(' ') else {
            return Err(line.mismatch("line", "a field"));
        };
        ignorable(field, line.at)?;
    }
    Ok(())
}

/// Returns an error for an unknown field that must be understood.
fn ignorable(field: &str, at: usize) -> Decoded<()> {
    match field.starts_with(REQUIRED) {
        true => Err(Malformed::unsupported(
            at,
            format!("field {field:?} is required and unknown"),
        )),
        false => Ok(()),
    }
}

fn temperature_name(temperature: u8) -> &'static str {
    let known = TEMPERATURES
        .iter()
        .find(|(_, number)| *number == temperature);
    known.map_or(TEMPERATURES[0].0, |known| known.0)
}

fn decode_hex(text: &str, at: usize) -> Decoded<Vec<u8>> {
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) {
        return Err(Malformed::mismatch(
            at,
            APP_METADATA,
            "an even number of hexadecimal digits",
            digits.len(),
        ));
    }
    let mut bytes = Vec::with_capacity(digits.len() / 2);
    for (index, pair) in digits.chunks_exact(2).enumerate() {
        let digit = |byte: u8| char::from(byte).to_digit(16);
        match (digit(pair[0]), digit(pair[1])) {
            (Some(high), Some(low)) => bytes.push((high << 4 | low) as u8),
            _ => {
                return Err(Malformed::mismatch(
                    at + 2 * index,
                    APP_METADATA,
                    "hexadecimal digits",
                    format_args!("{:?}", String::from_utf8_lossy(pair)),
                ));
            }
        }
    }
    Ok(bytes)
}

/// Digits only: `str::parse` accepts a sign.
fn number(digits: &str, at: usize, field: &str) -> Decoded<u64> {
    let decimal = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    let parsed = decimal.then(|| digits.parse().ok()).flatten();
    parsed.ok_or_else(|| {
        let shown: String = digits.chars().take(40).collect();
        Malformed::mismatch(at, field, "a decimal number", format_args!("{shown:?}"))
    })
}

/// A line and its offset.
#[derive(Clone, Copy)]
struct Line<'a> {
    at: usize,
    text: &'a str,
}

impl<'a> Line<'a> {
    fn number(self, field: &str) -> Decoded<u64> {
        number(self.text, self.at, field)
    }

    /// The words, which are separated by single spaces, with their offsets.
    fn words(self) -> impl Iterator<Item = (usize, &'a str)> {
        let mut at = self.at;
        self.text.split(' ').map(move |word| {
            let here = at;
            at += word.len() + 1;
            (here, word)
        })
    }

    fn mismatch(self, field: &str, expected: &str) -> Malformed {
        let shown: String = self.text.chars().take(80).collect();
        Malformed::mismatch(self.at, field, expected, format_args!("{shown:?}"))
    }
}

/// The remaining lines of the content.
struct Lines<'a> {
    content: &'a [u8],
    at: usize,
}

impl<'a> Lines<'a> {
    /// Returns the next line, without its line feed; `None` at the end.
    fn next(&mut self) -> Decoded<Option<Line<'a>>> {
        let rest = &self.content[self.at..];
        if rest.is_empty() {
            return Ok(None);
        }
        let at = self.at;
        let Some(len) = rest.iter().position(|byte| *byte == b'\n') else {
            return Err(Malformed::at(
                self.content.len(),
                "the last line does not end with a line feed",
            ));
        };
        self.at += len + 1;
        match std::str::from_utf8(&rest[..len]) {
            Ok("") => Err(Malformed::at(at, "a line is empty")),
            Ok(text) => Ok(Some(Line { at, text })),
            Err(error) => Err(Malformed::at(
                at + error.valid_up_to(),
                "a line is not text",
            )),
        }
    }

    /// [`Lines::next`] for a line that must be there.
    fn required(&mut self, expected: &str) -> Decoded<Line<'a>> {
        let end = self.content.len();
        let line = self.next()?;
        line.ok_or_else(|| Malformed::mismatch(end, "line", expected, "the end"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ONE: &str = "1795269642\n422\nmetadata 6a6B\n2\n\
        shared_checksum/000015_s6P5DEN43DTES4EAW9IF0_9235.sst crc32 1650826055\n\
        private/2/CURRENT crc32 2659179228\n";

    const TWO: &str = "schema_version 2.7\n18446744073709551615\n0\nnovel x y\n1\n\
        shared/000015.sst size 7 temp kCold color red\n\
        shared_checksum/000016_1_2.blob ni::excluded true\n// FOOTER\nsum 12\n";

    fn fails(content: &str, at: &str) -> Malformed {
        let malformed = BackupMeta::decode(content.as_bytes(), 2).expect_err(content);
        let expected = content.find(at).expect("the text contains the error");
        assert_eq!(malformed.at, expected, "{malformed} in {content:?}");
        malformed
    }

    #[test]
    fn both_schemas_are_decoded() {
        let one = BackupMeta::decode(ONE.as_bytes(), 2).expect("valid");
        assert_eq!((one.timestamp, one.sequence), (1_795_269_642, 422));
        assert_eq!(one.app_metadata, b"jk");
        assert_eq!(one.files[0].path.database_name(), "000015.sst");
        assert_eq!(one.files[1].crc32c, Some(2_659_179_228));
        assert_eq!(one.encode(), ONE.replace("6a", "6A"));
        let two = BackupMeta::decode(TWO.as_bytes(), 2).expect("valid");
        assert_eq!((two.timestamp, two.schema), (-1, Schema::Two));
        let file = &two.files[0];
        assert_eq!(
            (file.size, file.temperature, file.crc32c),
            (Some(7), 12, None)
        );
        assert_eq!(two.excluded[0].database_name(), "000016.blob");
        let again = BackupMeta::decode(two.encode().as_bytes(), 2).expect("valid");
        assert_eq!(again, two);
    }

    #[test]
    fn errors_have_the_offset_of_the_cause() {
        fails(&ONE.replace("422", "4x2"), "4x2");
        fails(&ONE.replace("6a6B", "6a6"), "6a6");
        fails(&ONE.replace("6a6B", "6aG0"), "G0");
        fails(&ONE.replace("\n2\n", "\n3\n"), "3\nshared");
        fails(&ONE.replace("private/2", "private/3"), "private/3");
        fails(&ONE.replace("private/2", "../2"), "../2");
        fails(&ONE.replace("crc32 2659179228", "size 1"), "size 1");
        fails(&ONE.replace("2659179228", "4294967296"), "4294967296");
        fails(&ONE.replace(" crc32 2659179228", ""), "private/2/CURRENT");
        fails(&ONE.replace("metadata", "other"), "other");
        let future = fails(&TWO.replace("2.7", "3"), "3\n");
        assert!(future.unsupported);
        assert!(fails(&TWO.replace("color", "ni::color"), "ni::color").unsupported);
        assert!(fails(&TWO.replace("sum 12", "ni::sum 12"), "ni::sum").unsupported);
        assert!(fails(&TWO.replace("true", "maybe"), "maybe").unsupported);
        let twice = ONE.replace("private/2/CURRENT", "shared/000015.sst");
        fails(&twice, "shared/000015.sst");
    }

    #[test]
    fn only_files_of_backups_are_paths() {
        for good in [
            "private/1/CURRENT",
            "private/4294967295/000001.log",
            "private/1/MANIFEST-000004",
            "private/1/000009.sst",
            "shared/000009.blob",
            "shared_checksum/000009_1_2.sst",
            "shared_checksum/000009.sst",
        ] {
            let path = BackupPath::parse(good).expect(good);
            assert_eq!(path.to_string(), good);
        }
        for bad in [
            "CURRENT",
            "/CURRENT",
            "private/CURRENT",
            "private/0/CURRENT",
            "private/01/CURRENT",
            "private/+1/CURRENT",
            "private/4294967296/CURRENT",
            "private/1/../2/CURRENT",
            "private/1/LOCK",
            "private/1/LOG",
            "private/../000001.sst",
            "shared/CURRENT",
            "shared/../000001.sst",
            "shared_checksum/000001_../x.sst",
            "shared_checksum/000001_\\.sst",
            "shared_checksum/000001_\0.sst",
            "shared_checksum/_1_2.sst",
            "/shared/000001.sst",
            "meta/1",
        ] {
            assert_eq!(BackupPath::parse(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn a_cut_or_changed_text_is_an_error_or_another_backup(
            at in 0..TWO.len(),
            byte: u8,
            two: bool,
        ) {
            let text = if two { TWO } else { ONE };
            let at = at % text.len();
            let _ = BackupMeta::decode(&text.as_bytes()[..at], 2);
            let mut changed = text.as_bytes().to_vec();
            changed[at] = byte;
            if let Ok(meta) = BackupMeta::decode(&changed, 2) {
                prop_assert_eq!(BackupMeta::decode(meta.encode().as_bytes(), 2), Ok(meta));
            }
        }
    }
}
