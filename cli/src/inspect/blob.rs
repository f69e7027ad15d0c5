//! Prints blob files. A file is read sequentially, so that everything up to the first damage, or to
//! the end of an unfinished file, is printed.

use cairn_format::blob::{
    FOOTER_LEN, Footer, HEADER_LEN, Header, MAGIC, RECORD_HEADER_LEN, RecordHeader,
};
use cairn_platform::RandomAccessFile;
use cairn_types::{Error, Malformed, Result};

use super::Page;

pub(super) fn show(page: &mut Page<'_>) -> Result<()> {
    let file = page.open()?;
    let entries = page.flags.entries;
    let summary = walk(&*file, |blob| {
        if !entries {
            return Ok(());
        }
        let value_at = blob.offset + (RECORD_HEADER_LEN + blob.key.len()) as u64;
        let (key, value) = (page.bytes(blob.key), page.bytes(blob.value));
        page.line(format_args!(
            "{key} = {} bytes at offset {value_at}: {value}",
            blob.value.len()
        ))
    });
    let summary = match summary {
        Ok(summary) => summary,
        Err(error) => return page.damage(error),
    };
    let codec = cairn_options::Compression::from_u8(summary.header.compression);
    let codec = codec.map_or("unknown".to_owned(), |codec| codec.to_string());
    page.line(format_args!("family {}", summary.header.family))?;
    page.line(format_args!("compression {codec}"))?;
    page.line(format_args!("values {}", summary.records))?;
    match summary.footer {
        Some(_) => page.line("all checksums match"),
        None => page.line("all checksums match; the file has no footer: it was not finished"),
    }
}

/// A record of a blob file.
struct Blob<'a> {
    /// Offset of the record.
    offset: u64,
    /// The user key.
    key: &'a [u8],
    /// The stored value.
    value: &'a [u8],
}

/// Summary of a blob file.
struct Summary {
    /// File header.
    header: Header,
    /// Number of records.
    records: u64,
    /// File footer; `None` if the file is unfinished.
    footer: Option<Footer>,
}

/// Reads every record of `file` and passes it to `visit`.
///
/// # Errors
///
/// `Corruption` with file and offset of the first damage; errors of `visit`.
fn walk(
    file: &dyn RandomAccessFile,
    mut visit: impl FnMut(Blob<'_>) -> Result<()>,
) -> Result<Summary> {
    let len = file.len()?;
    let bad = |error: Malformed, base: u64| error.in_file(file.path().display(), base);
    let head = read(file, 0, len.min(HEADER_LEN as u64))?;
    let header = Header::decode(&head).map_err(|error| bad(error, 0))?;
    let mut summary = Summary {
        header,
        records: 0,
        footer: None,
    };
    let mut at = HEADER_LEN as u64;
    while at < len {
        let rest = len - at;
        let head = read(file, at, rest.min(RECORD_HEADER_LEN as u64))?;
        if rest == FOOTER_LEN as u64 && head.starts_with(&MAGIC.to_le_bytes()) {
            let footer = Footer::decode(&head).map_err(|error| bad(error, at))?;
            check_count(file, at, &footer, summary.records)?;
            summary.footer = Some(footer);
            break;
        }
        let record = RecordHeader::decode(&head).map_err(|error| bad(error, at))?;
        let record_len = record.record_len().filter(|record_len| *record_len <= rest);
        let record_len = record_len.ok_or_else(|| {
            bad(
                Malformed::at(0, "record ends beyond the end of the file"),
                at,
            )
        })?;
        let body_at = at + RECORD_HEADER_LEN as u64;
        let body = read(file, body_at, record_len - RECORD_HEADER_LEN as u64)?;
        let (key, value) = body.split_at(record.key_len as usize);
        record
            .check_body(key, value)
            .map_err(|error| bad(error, at))?;
        visit(Blob {
            offset: at,
            key,
            value,
        })?;
        summary.records += 1;
        at += record_len;
    }
    Ok(summary)
}

/// Reads `len` bytes at `offset`, which the caller has checked to be within the file.
fn read(file: &dyn RandomAccessFile, offset: u64, len: u64) -> Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
    let got = file.read_at(offset, &mut bytes)?;
    bytes.truncate(got);
    Ok(bytes)
}

fn check_count(file: &dyn RandomAccessFile, at: u64, footer: &Footer, records: u64) -> Result<()> {
    match footer.blob_count == records {
        true => Ok(()),
        false => Err(Error::corruption(format!(
            "values of {}: expected {} as in the footer at offset {at}, found {records}",
            file.path().display(),
            footer.blob_count
        ))),
    }
}
