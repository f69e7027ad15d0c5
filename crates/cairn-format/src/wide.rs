//! Wide-column entities: values that are a set of named columns.
//!
//! ```text
//! version 1   varint32 1, varint32 n, n x (name, varint32 value size), values
//! version 2   varint32 2, varint32 n, varint32 bytes of name sizes, varint32 bytes of value
//!             sizes, varint32 bytes of names, n bytes of kind, n varint32 name sizes,
//!             n varint32 value sizes, names, values
//! kind        01 the value itself, 11 a blob index (see [`crate::blob`])
//! ```
//!
//! In version 1 a name is preceded by its varint32 length. Columns are strictly sorted by name; the default
//! column has the empty name and comes first. Nothing may follow the last value. Version 1 is written unless
//! a value is in a blob file.

use cairn_types::{Decoded, Error, Malformed, Result, ValueKind};

use crate::coding::{Input, put_lps, put_varint32};

/// The name of the column returned by a plain get.
pub const DEFAULT_COLUMN: &[u8] = b"";

const VERSION_1: u32 = 1;
const VERSION_2: u32 = 2;
const KIND_INLINE: u8 = ValueKind::Value as u8;
const KIND_BLOB: u8 = ValueKind::BlobIndex as u8;

/// A column of an entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column<'a> {
    /// The name; empty for the default column.
    pub name: &'a [u8],
    /// The value.
    pub value: ColumnValue<'a>,
}

/// The location of a column's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnValue<'a> {
    /// Inline.
    Inline(&'a [u8]),
    /// In a blob file, with this encoded blob index.
    Blob(&'a [u8]),
}

/// A validated entity, read in place.
#[derive(Clone, Copy, Debug)]
pub struct Entity<'a> {
    count: u32,
    columns: Columns<'a>,
}

/// Decodes and validates an entity, without allocating.
///
/// # Errors
///
/// [`Malformed`] if the sizes do not add up, the names are not sorted, or the version or a column
/// kind is unknown.
pub fn decode(entity: &[u8]) -> Decoded<Entity<'_>> {
    let mut input = Input::new(entity);
    let version = input.varint32()?;
    let count = input.varint32()?;
    let columns = match version {
        VERSION_1 => version_1(&mut input, count)?,
        VERSION_2 => version_2(&mut input, count)?,
        _ => {
            return Err(Malformed::unsupported(
                0,
                format!("version {version} of a wide-column entity"),
            ));
        }
    };
    check(columns, entity.len())?;
    Ok(Entity { count, columns })
}

impl<'a> Entity<'a> {
    /// The number of columns.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// True if there are no columns.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The columns, sorted by name.
    #[must_use]
    pub fn columns(&self) -> Columns<'a> {
        self.columns
    }

    /// The value of the default column, if there is one.
    #[must_use]
    pub fn default_value(&self) -> Option<ColumnValue<'a>> {
        let first = self.columns().next()?;
        (first.name == DEFAULT_COLUMN).then_some(first.value)
    }

    /// True if a column's value is in a blob file.
    #[must_use]
    pub fn has_blobs(&self) -> bool {
        self.columns()
            .any(|column| matches!(column.value, ColumnValue::Blob(_)))
    }
}

impl<'a> IntoIterator for Entity<'a> {
    type Item = Column<'a>;
    type IntoIter = Columns<'a>;
    fn into_iter(self) -> Columns<'a> {
        self.columns
    }
}

/// An iterator over the columns of an entity.
#[derive(Clone, Copy, Debug)]
pub struct Columns<'a> {
    left: u32,
    /// Version 1: names and value sizes. Version 2: value sizes.
    sizes: &'a [u8],
    /// Version 2 only.
    kinds: Option<Kinds<'a>>,
    values: &'a [u8],
}

/// The sections of version 2 apart from value sizes.
#[derive(Clone, Copy, Debug)]
struct Kinds<'a> {
    kinds: &'a [u8],
    name_sizes: &'a [u8],
    names: &'a [u8],
}

impl<'a> Iterator for Columns<'a> {
    type Item = Column<'a>;

    fn next(&mut self) -> Option<Column<'a>> {
        self.try_next().ok().flatten()
    }
}

impl<'a> Columns<'a> {
    /// The next column, if complete.
    fn try_next(&mut self) -> Decoded<Option<Column<'a>>> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let mut sizes = Input::new(self.sizes);
        let (name, kind) = match &mut self.kinds {
            None => (sizes.lps()?, KIND_INLINE),
            Some(kinds) => {
                let mut name_sizes = Input::new(kinds.name_sizes);
                let len = name_sizes.varint32()? as usize;
                kinds.name_sizes = name_sizes.rest();
                (
                    split(&mut kinds.names, len)?,
                    split(&mut kinds.kinds, 1)?[0],
                )
            }
        };
        let len = sizes.varint32()? as usize;
        self.sizes = sizes.rest();
        let value = split(&mut self.values, len)?;
        let value = match kind {
            KIND_INLINE => ColumnValue::Inline(value),
            KIND_BLOB => ColumnValue::Blob(value),
            _ => {
                return Err(Malformed::at(0, format!("unknown column kind {kind:#04x}")));
            }
        };
        Ok(Some(Column { name, value }))
    }
}

/// Splits `len` bytes off the start of `bytes`.
fn split<'a>(bytes: &mut &'a [u8], len: usize) -> Decoded<&'a [u8]> {
    let mut input = Input::new(bytes);
    let front = input.take(len)?;
    *bytes = input.rest();
    Ok(front)
}

fn version_1<'a>(input: &mut Input<'a>, count: u32) -> Decoded<Columns<'a>> {
    let sizes = input.rest();
    for _ in 0..count {
        input.lps()?;
        input.varint32()?;
    }
    let values = input.rest();
    Ok(Columns {
        left: count,
        sizes: &sizes[..sizes.len() - values.len()],
        kinds: None,
        values,
    })
}

fn version_2<'a>(input: &mut Input<'a>, count: u32) -> Decoded<Columns<'a>> {
    let name_sizes_len = input.varint32()? as usize;
    let value_sizes_len = input.varint32()? as usize;
    let names_len = input.varint32()? as usize;
    let kinds = input.take(count as usize)?;
    let name_sizes = input.take(name_sizes_len)?;
    let sizes = input.take(value_sizes_len)?;
    let names = input.take(names_len)?;
    Ok(Columns {
        left: count,
        sizes,
        kinds: Some(Kinds {
            kinds,
            name_sizes,
            names,
        }),
        values: input.rest(),
    })
}

/// Checks that all columns are complete and sorted, and that all sections are consumed.
fn check(mut columns: Columns<'_>, len: usize) -> Decoded<()> {
    let mut last: Option<&[u8]> = None;
    loop {
        // The offset of the remaining values is enough to locate the column.
        let at = len - columns.values.len();
        let column = columns
            .try_next()
            .map_err(|error| Malformed { at, ..error })?;
        let Some(column) = column else { break };
        if last.is_some_and(|last| last >= column.name) {
            return Err(Malformed::at(at, "columns of an entity are not sorted"));
        }
        last = Some(column.name);
    }
    let left_over = columns
        .kinds
        .is_some_and(|kinds| !(kinds.name_sizes.is_empty() && kinds.names.is_empty()));
    if left_over || !columns.sizes.is_empty() || !columns.values.is_empty() {
        return Err(Malformed::at(
            len - columns.values.len(),
            "entity has bytes after its last column",
        ));
    }
    Ok(())
}

/// Encodes `columns`, strictly sorted by name, and appends the entity to `out`.
///
/// # Errors
///
/// `InvalidArgument` if names are unsorted or repeated, or if a name, a value or the number of columns
/// exceeds 32 bits.
pub fn encode(columns: &[Column<'_>], out: &mut Vec<u8>) -> Result<()> {
    let count = check_columns(columns)?;
    let has_blobs = columns
        .iter()
        .any(|column| matches!(column.value, ColumnValue::Blob(_)));
    if has_blobs {
        encode_version_2(columns, count, out);
    } else {
        put_varint32(out, VERSION_1);
        put_varint32(out, count);
        for column in columns {
            put_lps(out, column.name);
            put_varint32(out, len32(bytes_of(column)));
        }
    }
    for column in columns {
        out.extend_from_slice(bytes_of(column));
    }
    Ok(())
}

/// Encodes `columns` (names and values, in any order) and appends the entity to `out`.
///
/// # Errors
///
/// `Corruption` if a name is repeated; those of [`encode`].
pub fn encode_unsorted(columns: &[(&[u8], &[u8])], out: &mut Vec<u8>) -> Result<()> {
    let mut sorted: Vec<Column<'_>> = columns
        .iter()
        .map(|(name, value)| Column {
            name,
            value: ColumnValue::Inline(value),
        })
        .collect();
    sorted.sort_by_key(|column| column.name);
    if let Some(pair) = sorted.windows(2).find(|pair| pair[0].name == pair[1].name) {
        return Err(Error::corruption(format!(
            "the column \"{}\" of an entity is given twice",
            pair[0].name.escape_ascii()
        )));
    }
    encode(&sorted, out)
}

/// Encodes all sections of version 2 except the values.
fn encode_version_2(columns: &[Column<'_>], count: u32, out: &mut Vec<u8>) {
    let (mut kinds, mut name_sizes, mut sizes, mut names) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for column in columns {
        kinds.push(match column.value {
            ColumnValue::Inline(_) => KIND_INLINE,
            ColumnValue::Blob(_) => KIND_BLOB,
        });
        put_varint32(&mut name_sizes, len32(column.name));
        put_varint32(&mut sizes, len32(bytes_of(column)));
        names.extend_from_slice(column.name);
    }
    put_varint32(out, VERSION_2);
    put_varint32(out, count);
    put_varint32(out, len32(&name_sizes));
    put_varint32(out, len32(&sizes));
    put_varint32(out, len32(&names));
    for section in [kinds, name_sizes, sizes, names] {
        out.extend_from_slice(&section);
    }
}

fn check_columns(columns: &[Column<'_>]) -> Result<u32> {
    if !columns.is_sorted_by(|a, b| a.name < b.name) {
        return Err(Error::invalid_argument(
            "columns of an entity must be sorted by name without duplicates",
        ));
    }
    let bytes: usize = columns
        .iter()
        .map(|column| column.name.len() + bytes_of(column).len() + 10)
        .sum();
    match (u32::try_from(bytes), u32::try_from(columns.len())) {
        (Ok(_), Ok(count)) => Ok(count),
        _ => Err(Error::invalid_argument(
            "wide-column entity is too large: expected less than 2^32 bytes",
        )),
    }
}

fn bytes_of<'a>(column: &Column<'a>) -> &'a [u8] {
    match column.value {
        ColumnValue::Inline(bytes) | ColumnValue::Blob(bytes) => bytes,
    }
}

fn len32(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).expect("check_columns has bounded the total")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::{btree_map, vec};
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn entities_round_trip(
            columns in btree_map(
                vec(any::<u8>(), 0..4), (vec(any::<u8>(), 0..200), any::<bool>()), 0..10
            ),
            cut in any::<prop::sample::Index>(),
        ) {
            let columns: Vec<Column<'_>> = columns
                .iter()
                .map(|(name, (value, blob))| Column {
                    name,
                    value: if *blob { ColumnValue::Blob(value) } else { ColumnValue::Inline(value) },
                })
                .collect();
            let mut bytes = Vec::new();
            encode(&columns, &mut bytes).unwrap();
            let entity = decode(&bytes).unwrap();
            prop_assert_eq!(entity.len(), columns.len());
            prop_assert_eq!(&entity.columns().collect::<Vec<_>>(), &columns);
            prop_assert!(decode(&bytes[..cut.index(bytes.len())]).is_err());
            bytes.push(0);
            prop_assert!(decode(&bytes).is_err());
        }

        #[test]
        fn hostile_entities_never_panic(
            version in 0..4u8, count in 0..6u8, rest in vec(0..24u8, 0..40)
        ) {
            let mut bytes = vec![version, count];
            bytes.extend(rest);
            if let Ok(entity) = decode(&bytes) {
                let columns: Vec<_> = entity.columns().collect();
                prop_assert_eq!(columns.len(), entity.len());
                let mut again = Vec::new();
                encode(&columns, &mut again).unwrap();
                prop_assert_eq!(decode(&again).unwrap().columns().collect::<Vec<_>>(), columns);
            }
        }
    }

    fn inline<'a>(name: &'a [u8], value: &'a [u8]) -> Column<'a> {
        Column {
            name,
            value: ColumnValue::Inline(value),
        }
    }

    #[test]
    fn both_versions_have_rocksdbs_bytes() {
        let mut bytes = Vec::new();
        encode(&[inline(b"", b"dv"), inline(b"a", b"1")], &mut bytes).unwrap();
        assert_eq!(bytes, b"\x01\x02\0\x02\x01a\x01dv1");

        let blob = Column {
            name: b"b",
            value: ColumnValue::Blob(b"idx"),
        };
        bytes.clear();
        encode(&[inline(b"", b"dv"), blob], &mut bytes).unwrap();
        assert_eq!(bytes, b"\x02\x02\x02\x02\x01\x01\x11\0\x01\x02\x03bdvidx");
        let entity = decode(&bytes).unwrap();
        assert!(entity.has_blobs());
        assert_eq!(entity.default_value(), Some(ColumnValue::Inline(b"dv")));
    }

    #[test]
    fn names_are_sorted_and_do_not_repeat() {
        let mut bytes = Vec::new();
        let twice = [inline(b"a", b""), inline(b"a", b"")];
        assert!(encode(&twice, &mut bytes).is_err());
        assert!(encode(&[inline(b"b", b""), inline(b"a", b"")], &mut bytes).is_err());
        let error = decode(b"\x01\x02\x01b\0\x01a\0").unwrap_err();
        assert_eq!(error.what, "columns of an entity are not sorted");
        assert!(decode(b"\x01\x02\x01a\0\x01a\0").is_err());
    }

    #[test]
    fn unknown_versions_and_kinds_are_rejected() {
        assert!(decode(b"\x03\0").unwrap_err().unsupported);
        let error = decode(b"\x02\x01\x01\x01\0\x05\0\0").unwrap_err();
        assert!(error.what.contains("0x05"), "{error}");
    }

    #[test]
    fn a_count_without_columns_allocates_nothing() {
        assert!(decode(b"\x01\xff\xff\xff\xff\x0f").is_err());
        assert!(decode(b"\x02\xff\xff\xff\xff\x0f\0\0\0").is_err());
    }
}
