//! The syntax of OPTIONS files and option strings, independent of the options themselves.
//!
//! An option string is `name=value;name={name=value;...}`, where a value in braces may contain statements. An
//! OPTIONS file has one statement per line, in titled sections:
//!
//! ```text
//! # a comment, to the end of the line, unless the sign is escaped
//! [Version]
//!   rocksdb_version=11.9.0
//!   options_file_version=1.1
//! [DBOptions]
//!   max_open_files=-1
//! [CFOptions "default"]
//!   compression_opts={level=3;max_dict_bytes=0;}
//! [TableOptions/BlockBasedTable "default"]
//!   block_size=4096
//! ```
//!
//! User-defined text (title arguments and string values) is escaped: backslash, `#` and `:` are preceded by a
//! backslash, and line ends are written as `\n` and `\r`.
//!
//! Paths and delimiters may contain any bytes, and so may a file. In its text ([`from_bytes`]), a byte `80 + n` that is
//! not part of a UTF-8 character is the private character U+10FF80 + n. Bytes that encode such a character are not taken
//! for a character, so that [`to_bytes`] returns every file unchanged.

use std::borrow::Cow;

use cairn_types::{Decoded, Malformed};

/// A section of an OPTIONS file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Section {
    /// The title: `CFOptions`, `TableOptions/BlockBasedTable`.
    pub title: String,
    /// The unescaped argument of the title, such as a column family name.
    pub argument: Option<String>,
    /// Names and values, unprocessed.
    pub statements: Vec<(String, String)>,
}

impl Section {
    /// Creates an empty section.
    #[must_use]
    pub fn new(title: &str, argument: Option<&str>) -> Section {
        Section {
            title: title.to_owned(),
            argument: argument.map(str::to_owned),
            statements: Vec::new(),
        }
    }

    /// The value of `name`, if present.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<&str> {
        let found = self.statements.iter().find(|(other, _)| other == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Appends a statement.
    pub fn push(&mut self, name: &str, value: impl Into<String>) {
        self.statements.push((name.to_owned(), value.into()));
    }
}

/// Splits an option string into statements, trimming whitespace.
///
/// # Errors
///
/// [`Malformed`] for a name without `=` or unbalanced braces.
pub fn statements(text: &str) -> Decoded<Vec<(&str, &str)>> {
    let mut found = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let at = text.len() - rest.len();
        let Some((name, behind)) = rest.split_once('=') else {
            return Err(Malformed::at(at, format!("no '=' after {rest:?}")));
        };
        let end = value_len(behind).map_err(|error| error.shifted(at + name.len() + 1))?;
        found.push((name.trim(), behind[..end].trim()));
        rest = behind.get(end + 1..).unwrap_or("").trim_start();
    }
    Ok(found)
}

/// The length of the value at the start of `text`, up to the first `;` outside braces.
fn value_len(text: &str) -> Decoded<usize> {
    let mut depth = 0usize;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' if depth == 0 => return Err(Malformed::at(at, "'}' without its '{'")),
            b'}' => depth -= 1,
            b';' if depth == 0 => return Ok(at),
            _ => {}
        }
    }
    match depth {
        0 => Ok(text.len()),
        _ => Err(Malformed::at(text.len(), "'{' without its '}'")),
    }
}

/// Parses an OPTIONS file.
///
/// # Errors
///
/// [`Malformed`] at the first line that is not a title, a statement, a comment or empty.
pub fn parse_file(text: &str) -> Decoded<Vec<Section>> {
    sections(text).collect()
}

/// Parses an OPTIONS file, a section at a time: those of a thousand families together take three times the memory of the
/// file. The errors are those of [`parse_file`]; nothing follows one.
#[must_use]
pub fn sections(text: &str) -> Sections<'_> {
    Sections {
        rest: text,
        at: 0,
        section: None,
    }
}

/// The sections of an OPTIONS file; see [`sections`].
#[derive(Clone, Debug)]
pub struct Sections<'a> {
    rest: &'a str,
    /// The offset of the rest in the file.
    at: usize,
    /// The section whose title has been parsed.
    section: Option<Section>,
}

impl Sections<'_> {
    /// Parses up to the title of another section.
    fn parse_section(&mut self) -> Decoded<Option<Section>> {
        while let Some(line) = self.rest.split_inclusive('\n').next() {
            let at = self.at;
            self.rest = &self.rest[line.len()..];
            self.at += line.len();
            let content = without_comment(line).trim();
            if content.starts_with('[') {
                let title = parse_title(content).map_err(|error| error.shifted(at))?;
                if let Some(ended) = self.section.replace(title) {
                    return Ok(Some(ended));
                }
            } else if !content.is_empty() {
                let statement = content.split_once('=');
                let (name, value) =
                    statement.ok_or_else(|| Malformed::at(at, "no '=' in a line"))?;
                let section = self.section.as_mut();
                let section =
                    section.ok_or_else(|| Malformed::at(at, "option before any section"))?;
                section.push(name.trim(), value.trim());
            }
        }
        Ok(self.section.take())
    }
}

impl Iterator for Sections<'_> {
    type Item = Decoded<Section>;

    fn next(&mut self) -> Option<Decoded<Section>> {
        let parsed = self.parse_section();
        if parsed.is_err() {
            (self.rest, self.section) = ("", None);
        }
        parsed.transpose()
    }
}

/// `line` up to the first unescaped `#`.
fn without_comment(line: &str) -> &str {
    let mut escaped = false;
    for (at, byte) in line.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'#' => return &line[..at],
            _ => {}
        }
    }
    line
}

/// Parses a title line, `[Word]` or `[Word "argument"]`.
fn parse_title(line: &str) -> Decoded<Section> {
    let inner = line
        .strip_prefix('[')
        .and_then(|line| line.strip_suffix(']'));
    let inner = inner.ok_or_else(|| Malformed::at(0, "section title without ']'"))?;
    let Some((title, argument)) = inner.split_once('"') else {
        return Ok(Section::new(inner.trim(), None));
    };
    let argument = argument.trim_end().strip_suffix('"');
    let argument =
        argument.ok_or_else(|| Malformed::at(0, "section title without its last '\"'"))?;
    let argument = unescape(argument);
    // Names of families are UTF-8: stand-ins that decode to UTF-8 are private characters of the name. Others are kept.
    let name = match to_bytes(&argument) {
        Cow::Borrowed(_) => None,
        Cow::Owned(bytes) => String::from_utf8(bytes).ok(),
    };
    let argument = name.unwrap_or(argument);
    Ok(Section::new(title.trim(), Some(&argument)))
}

/// The first of the 128 private characters that stand for the bytes from 80 to ff.
const FIRST_STAND_IN: u32 = 0x10_ff80;

/// The character that stands for `byte`.
fn stand_in(byte: u8) -> char {
    match byte {
        0..0x80 => char::from(byte),
        0x80.. => char::from_u32(FIRST_STAND_IN + u32::from(byte - 0x80))
            .expect("the last plane ends with characters"),
    }
}

/// The byte that `char` stands for, if it does.
fn stood_for(char: char) -> Option<u8> {
    let n = u32::from(char).checked_sub(FIRST_STAND_IN)?;
    u8::try_from(n + 0x80).ok()
}

fn has_stand_ins(text: &str) -> bool {
    text.contains(|char| stood_for(char).is_some())
}

/// Returns `bytes` as a text, in which private characters stand for bytes that are not UTF-8.
#[must_use]
pub fn from_bytes(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) if !has_stand_ins(text) => return Cow::Borrowed(text),
        _ => {}
    }
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for char in chunk.valid().chars() {
            match stood_for(char) {
                Some(_) => {
                    let mut encoded = [0; 4];
                    let encoded = char.encode_utf8(&mut encoded);
                    text.extend(encoded.bytes().map(stand_in));
                }
                None => text.push(char),
            }
        }
        text.extend(chunk.invalid().iter().copied().map(stand_in));
    }
    Cow::Owned(text)
}

/// The inverse of [`from_bytes`].
#[must_use]
pub fn to_bytes(text: &str) -> Cow<'_, [u8]> {
    if !has_stand_ins(text) {
        return Cow::Borrowed(text.as_bytes());
    }
    let mut bytes = Vec::with_capacity(text.len());
    for char in text.chars() {
        match stood_for(char) {
            Some(byte) => bytes.push(byte),
            None => bytes.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    Cow::Owned(bytes)
}

/// Formats sections as RocksDB does.
#[must_use]
pub fn print_file(sections: &[Section]) -> String {
    let mut text = String::new();
    sections
        .iter()
        .for_each(|section| print_section(&mut text, section));
    text
}

/// Appends `section` to the text of a file.
pub fn print_section(text: &mut String, section: &Section) {
    if !text.is_empty() {
        text.push('\n');
    }
    match &section.argument {
        Some(argument) => {
            let argument = escape(&from_bytes(argument.as_bytes()));
            text.push_str(&format!("[{} \"{argument}\"]\n", section.title));
        }
        None => text.push_str(&format!("[{}]\n", section.title)),
    }
    for (name, value) in &section.statements {
        text.push_str(&format!("  {name}={value}\n"));
    }
}

/// Escapes `text`.
#[must_use]
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '\\' | '#' | ':' => escaped.extend(['\\', char]),
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            _ => escaped.push(char),
        }
    }
    escaped
}

/// The inverse of [`escape`].
#[must_use]
pub fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        match char {
            '\\' => match chars.next() {
                Some('n') => plain.push('\n'),
                Some('r') => plain.push('\r'),
                Some(other) => plain.push(other),
                None => plain.push('\\'),
            },
            _ => plain.push(char),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn braces_nest_statements() {
        assert_eq!(
            statements(" a=1; b={c=2;d={e=3};} ;f=").unwrap(),
            [("a", "1"), ("b", "{c=2;d={e=3};}"), ("f", "")]
        );
        assert_eq!(statements("a=1;b").unwrap_err().at, 4);
        assert!(statements("a={").is_err());
        assert!(statements("a=}").is_err());
    }

    #[test]
    fn a_file_has_sections_comments_and_escapes() {
        let text = "# head\n[Version] # title\n  a=1\n\n[CFOptions \"na\\#me\"]\n b={c=1;} # x\n";
        let sections = parse_file(text).unwrap();
        assert_eq!(sections[0].value("a"), Some("1"));
        assert_eq!(sections[1].argument.as_deref(), Some("na#me"));
        assert_eq!(sections[1].value("b"), Some("{c=1;}"));
        assert_eq!(parse_file("a=1").unwrap_err().at, 0);
        assert_eq!(parse_file("[A]\nx").unwrap_err().at, 4);
        assert!(parse_file("[A").is_err());
        assert!(parse_file("[A \"b]").is_err());
    }

    #[test]
    fn bytes_that_are_not_utf8_are_private_characters() {
        assert_eq!(from_bytes(b"/caf\xe9/\x80"), "/caf\u{10ffe9}/\u{10ff80}");
        assert_eq!(
            to_bytes("\u{10ffe9}\u{10ff7f}"),
            &b"\xe9\xf4\x8f\xbd\xbf"[..]
        );
        // A private character in the bytes is not the byte that it would stand for.
        let real = "a\u{10ffff}";
        assert_eq!(to_bytes(&from_bytes(real.as_bytes())), real.as_bytes());
        assert_eq!(from_bytes(real.as_bytes()).chars().count(), 5);
        assert!(matches!(from_bytes("é".as_bytes()), Cow::Borrowed("é")));
    }

    proptest! {
        #[test]
        fn any_bytes_are_the_same_after_being_a_text(
            parts in prop::collection::vec(
                prop_oneof![
                    prop::collection::vec(any::<u8>(), 0..6),
                    "\\PC{0,3}".prop_map(String::into_bytes),
                    prop::char::range('\u{10ff70}', '\u{10ffff}').prop_map(|char| char.to_string().into_bytes()),
                ],
                0..9,
            ),
        ) {
            let bytes = parts.concat();
            let text = from_bytes(&bytes);
            prop_assert_eq!(&*to_bytes(&text), &bytes[..]);
            // Escaping and titles keep the stand-ins.
            let name = "CFOptions";
            let sections = vec![Section::new(name, Some(&text))];
            prop_assert_eq!(&*unescape(&escape(&text)), &*text);
            prop_assert_eq!(parse_file(&print_file(&sections)).unwrap(), sections);
        }

        #[test]
        fn options_files_round_trip(name in "\\PC{0,9}", value in "[a-z0-9.]{0,9}") {
            let mut section = Section::new("CFOptions", Some(&name));
            section.push("x", &*value);
            let sections = vec![section];
            prop_assert_eq!(parse_file(&print_file(&sections)).unwrap(), sections);
        }

        #[test]
        fn parsing_options_never_panics(text in "\\PC{0,40}") {
            let _ = (statements(&text), parse_file(&text));
            prop_assert_eq!(unescape(&escape(&text)), text);
        }
    }
}
