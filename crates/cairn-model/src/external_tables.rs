//! External tables: their writes, the way in which they are ingested, and those that are prepared.

use std::path::PathBuf;

use cairn_db::{Family, FileIngestionHandle};
use cairn_types::Result;

use crate::line::wrong;
use crate::write_entry::Write;

/// Ingestion modes.
pub(crate) const WAYS: [&str; 3] = ["copy", "link", "move"];

/// Tables and the way in which they are ingested.
#[derive(Clone, Debug)]
pub struct ExternalTables {
    pub(crate) way: &'static str,
    /// The writes of each file, all of one family: range deletions, then one write per key in key
    /// order.
    pub(crate) files: Vec<Vec<Write>>,
}

impl ExternalTables {
    /// Parses [`ExternalTables::text`].
    pub(crate) fn read(text: &str) -> Result<ExternalTables> {
        let (way, rest) = text.split_once(' ').unwrap_or((text, ""));
        let way = WAYS.into_iter().find(|known| *known == way);
        let files = rest.split(" | ").map(|file| {
            let writes: Result<Vec<Write>> = file.split(" ; ").map(str::parse).collect();
            writes
        });
        Ok(ExternalTables {
            way: way.ok_or_else(|| wrong("missing ingestion mode", text))?,
            files: files.collect::<Result<_>>()?,
        })
    }

    /// The writes of all files.
    pub(crate) fn writes(&self) -> Vec<Write> {
        self.files.iter().flatten().cloned().collect()
    }

    /// True if the files are moved.
    pub(crate) fn moves(&self) -> bool {
        self.way == "move"
    }

    /// The text that [`ExternalTables::read`] parses.
    pub(crate) fn text(&self) -> String {
        let files = self.files.iter().map(|writes| {
            let writes: Vec<String> = writes.iter().map(Write::to_string).collect();
            writes.join(" ; ")
        });
        let files: Vec<String> = files.collect();
        format!("{} {}", self.way, files.join(" | "))
    }
}

/// Prepared files, each with a handle of its own.
#[derive(Default)]
pub(crate) struct Staged {
    pub(crate) handles: Vec<FileIngestionHandle>,
    pub(crate) families: Vec<Family>,
    pub(crate) paths: Vec<PathBuf>,
}
