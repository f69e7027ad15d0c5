//! The command `inspect`: prints a file of a database, and its damage.

mod blob;
mod log;
mod manifest;
mod table;

use std::fmt::Display;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cairn_format::names::FileName;
use cairn_format::options_text::{from_bytes, parse_file, print_file, to_bytes};
use cairn_options::file::OptionsFile;
use cairn_platform::fs::FileMode;
use cairn_platform::{FileSystem, PosixFileSystem, RandomAccessFile};
use cairn_types::{Error, FileNumber, Result};

use crate::args::Inspect;
use crate::show;

/// Maximum size of a text file.
const MAX_TEXT_LEN: u64 = 64 << 20;

/// A file under inspection, with its output.
struct Page<'a> {
    path: PathBuf,
    /// The number in the file's name; 0 if it has none.
    number: FileNumber,
    flags: &'a Inspect,
    out: &'a mut dyn Write,
    /// The number of damaged places found.
    damages: u64,
}

impl Page<'_> {
    /// Writes a line.
    fn line(&mut self, text: impl Display) -> Result<()> {
        writeln!(self.out, "{text}").map_err(|error| Error::io_text(format!("print: {error}")))
    }

    /// Writes a line with the bytes that [`from_bytes`] turned into `text`.
    fn raw_line(&mut self, text: &str) -> Result<()> {
        let mut line = to_bytes(text.trim_end()).into_owned();
        line.push(b'\n');
        let written = self.out.write_all(&line);
        written.map_err(|error| Error::io_text(format!("print: {error}")))
    }

    /// Writes a line about damage.
    fn damage(&mut self, text: impl Display) -> Result<()> {
        self.damages += 1;
        self.line(format_args!("!! {text}"))
    }

    /// Formats a key or value, truncated to the width.
    fn bytes(&self, bytes: &[u8]) -> String {
        let shown = &bytes[..bytes.len().min(self.flags.width)];
        let text = match self.flags.hex {
            true => show::hex(shown),
            false => show::escaped(shown),
        };
        match bytes.len() - shown.len() {
            0 => text,
            _ => format!("{text}… ({} bytes)", bytes.len()),
        }
    }

    fn open(&self) -> Result<Arc<dyn RandomAccessFile>> {
        PosixFileSystem.open(&self.path, FileMode::default())
    }

    /// Returns the content of a text file.
    fn text(&self) -> Result<String> {
        let file = self.open()?;
        let len = file.len()?;
        if len > MAX_TEXT_LEN {
            return Err(Error::not_supported(format!(
                "{}: {len} bytes is too large for a text file",
                self.path.display()
            )));
        }
        let mut bytes = vec![0; len as usize];
        let got = file.read_at(0, &mut bytes)?;
        bytes.truncate(got);
        Ok(from_bytes(&bytes).into_owned())
    }
}

/// Prints the file. Returns true if it is intact.
pub fn run(flags: &Inspect, out: &mut dyn Write) -> Result<bool> {
    let name = kind_of(&flags.file)?;
    let number = name.number().unwrap_or_default();
    let mut page = Page {
        path: flags.file.clone(),
        number,
        flags,
        out,
        damages: 0,
    };
    match name {
        FileName::Table(_) | FileName::LegacyTable(_) => table::show(&mut page)?,
        FileName::Wal(_) => log::show(&mut page)?,
        FileName::Manifest(_) => manifest::show(&mut page)?,
        FileName::Blob(_) => blob::show(&mut page)?,
        FileName::Options(_) | FileName::OptionsTemp(_) => show_options(&mut page)?,
        _ => {
            let text = page.text()?;
            page.raw_line(&text)?;
        }
    }
    Ok(page.damages == 0)
}

/// Returns the file type from its name.
fn kind_of(path: &Path) -> Result<FileName> {
    let name = path
        .file_name()
        .map(|name| name.to_string_lossy().into_owned());
    name.as_deref().and_then(FileName::parse).ok_or_else(|| {
        Error::invalid_argument(format!(
            "{} has no name that a file of a database has, such as 000012.sst, 000013.log, \
             MANIFEST-000005, OPTIONS-000007 or 000014.blob",
            path.display()
        ))
    })
}

fn show_options(page: &mut Page<'_>) -> Result<()> {
    let text = page.text()?;
    let sections =
        parse_file(&text).map_err(|malformed| malformed.in_file(page.path.display(), 0))?;
    page.raw_line(&print_file(&sections))?;
    match OptionsFile::from_text(&text, true) {
        Ok(file) => file
            .passed_over
            .iter()
            .try_for_each(|option| page.line(format!("# {option} is unknown and ignored"))),
        Err(error) => page.damage(error),
    }
}
