//! Point lookups as futures.
//!
//! [`try_get`] is the first attempt, on data in memory. It takes no more than a reference and allocates nothing.
//! If a block or a table is missing, [`get_async`] starts again with a view that it keeps: only then does the future
//! have a state that lives across reads.
//!
//! Reads of blocks and of blobs are awaited. Blocking work, such as opening a table, runs on a helper thread
//! ([`offload`]). Counters by level and times of the perf context, which belong to a thread, are not recorded.

use std::sync::Arc;

use cairn_format::blob::BlobIndex;
use cairn_format::key::LookupKey;
use cairn_observe::traces::block_cache::is_in_use as is_traced;
use cairn_options::ReadOptions;
use cairn_platform::io::{Offload, offload};
use cairn_platform::{Buffer, Io, ReadDriver};
use cairn_table::{SuspendedGet, Table};
use cairn_types::{Error, FileNumber, Progress, Result};
use cairn_version::{FileMeta, FileToOpen, TableRef};

use super::{Found, Pending, PointGet, keep_scratch, next_traced_get, take_scratch, with_scratch};
use crate::get_stats::count_get;
use crate::versions::Newest;
use crate::view::{Reading, View};

/// Returns the newest version of the key in `view` that is visible to `lookup`, if that needs no file: `None` if
/// it may.
///
/// # Errors
///
/// Those of [`get`](super::get), except for those of reads.
pub fn try_get(view: &View, lookup: &LookupKey, options: &ReadOptions) -> Result<Option<Found>> {
    // The second attempt would record everything again.
    if is_traced() && next_traced_get(view).is_some() {
        return Ok(None);
    }
    with_scratch(|scratch| {
        let began = view.family.began();
        let mut get = PointGet::new(view, lookup, options, scratch.0.take());
        let searched = get.run();
        let mut state = std::mem::take(&mut get.state);
        let is_stored_here = !matches!(get.versions.newest, Newest::Blob(_) | Newest::Entity(_));
        let found = match searched {
            Ok(Progress::Ready) if is_stored_here => get.finish(),
            Ok(_) => {
                // The second attempt counts everything again.
                if let Some(counts) = state.counts() {
                    counts.forget();
                }
                state.reset();
                scratch.0.set(state);
                return Ok(None);
            }
            Err(error) => {
                state.reset();
                Err(error)
            }
        };
        count_get(view, began, state.counts(), get.hit(), &found);
        scratch.0.set(state);
        found.map(Some)
    })
}

/// [`get`](super::get) as a future. Errors are the same.
///
/// # Errors
///
/// Those of [`get`](super::get).
pub async fn get_async(view: &View, lookup: &LookupKey, options: &ReadOptions) -> Result<Found> {
    let began = view.family.began();
    let mut get = PointGet::new(view, lookup, options, take_scratch());
    let searched = get.run_async().await;
    let hit = get.hit();
    let found = match (searched, &get.versions.newest) {
        // Boxed: the futures of other gets have no room for it.
        (Ok(()), Newest::Blob(_) | Newest::Entity(_)) => Box::pin(get.finish_async()).await,
        (Ok(()), _) => get.finish(),
        (Err(error), _) => Err(error),
    };
    let state = get.take_state();
    count_get(view, began, state.counts(), hit, &found);
    keep_scratch(state);
    found
}

impl PointGet<'_> {
    /// Runs until the search is finished, awaiting reads.
    async fn run_async(&mut self) -> Result<()> {
        let reading = &self.view.family;
        while !self.run()?.is_ready() {
            if self.lacks_storage() {
                return Err(self.refuse_storage());
            }
            match self.pending.take() {
                None => {}
                Some(Pending::Block) => {
                    let requests = self.request().into_iter().collect();
                    let suspended = self.suspend();
                    let read = self.read_deadline().read_all(reading, requests);
                    let bytes = only(read.await);
                    self.resume(suspended);
                    self.supply(bytes)?;
                }
                Some(Pending::Table(file, level)) => {
                    self.read_deadline().check(reading)?;
                    let table = open_async(reading, file, level).await?;
                    self.enter(table, file)?;
                }
            }
        }
        Ok(())
    }

    /// Suspends the search of the current table. Its state returns to the thread, for other gets.
    fn suspend(&mut self) -> SuspendedGet {
        let suspended = self.state.suspend();
        keep_scratch(std::mem::take(&mut self.state));
        suspended
    }

    /// Continues the search of the current table, perhaps on another thread.
    fn resume(&mut self, suspended: SuspendedGet) {
        self.state = take_scratch();
        if let Some(table) = &self.table {
            self.state.resume(table, suspended);
        }
    }

    /// Awaits values in blob files, and returns the result.
    async fn finish_async(&mut self) -> Result<Found> {
        let mut indexes = Vec::new();
        self.add_blob_indexes(&mut indexes);
        let opening = open_blob_files(&self.view.family, &indexes);
        opening.await;
        let mut requests = Vec::new();
        if let Some(mut blobs) = self.blob_reads(&mut requests)? {
            while !requests.is_empty() {
                let wanted = std::mem::take(&mut requests);
                let read = self.read_deadline().read_all(&self.view.family, wanted);
                self.supply_blobs(&mut blobs, read.await.into_iter(), &mut requests)?;
            }
        }
        self.finish()
    }
}

/// Opens the blob files of `indexes` on helper threads. An error is that of the read.
pub(crate) fn open_blob_files(
    reading: &Reading,
    indexes: &[&[u8]],
) -> impl Future<Output = ()> + Send + use<> {
    let mut files: Vec<FileNumber> = Vec::new();
    if opens_apart(reading) {
        let decoded = indexes
            .iter()
            .filter_map(|index| BlobIndex::decode(index).ok());
        files.extend(decoded.map(|index| index.file));
        files.sort_unstable();
        files.dedup();
        files.retain(|&file| !reading.blobs.is_open(file));
    }
    let opening: Vec<_> = files
        .into_iter()
        .map(|file| {
            let blobs = reading.blobs.clone();
            offload(move || drop(blobs.file(file)))
        })
        .collect();
    async move {
        for opened in opening {
            opened.await;
        }
    }
}

/// The result of the only read.
fn only(read: Vec<Result<Buffer>>) -> Result<Buffer> {
    let unanswered = || Err(Error::aborted("a read has no result"));
    read.into_iter().next().unwrap_or_else(unanswered)
}

/// True if blocking work runs on a helper thread: not in a simulation, and not with an executor that blocks.
pub(crate) fn opens_apart(reading: &Reading) -> bool {
    reading.clock.is_real() && reading.io.driver() != ReadDriver::Blocking
}

/// Opens the table of `file`.
async fn open_async<'f>(
    reading: &Reading,
    file: &'f Arc<FileMeta>,
    level: usize,
) -> Result<TableRef<'f>> {
    if !opens_apart(reading) {
        return reading.tables.open(file, level, &reading.io);
    }
    let source = &reading.tables;
    let to_open = FileToOpen {
        file,
        level,
        source,
    };
    let table = start_opening(to_open, &reading.io).await?;
    Ok(file.table.get().unwrap_or(TableRef::Held(table)))
}

/// Opens a table on a helper thread.
pub(crate) fn start_opening(to_open: FileToOpen<'_>, io: &Io) -> Offload<Result<Arc<Table>>> {
    let FileToOpen {
        file,
        level,
        source,
    } = to_open;
    let (file, source, io) = (file.clone(), source.clone(), io.clone());
    offload(move || {
        let opened = source.open(&file, level, &io);
        opened.map(TableRef::into_arc)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The size of the futures that `start` returns.
    fn size<F>(
        _start: impl Fn(&'static View, &'static LookupKey, &'static ReadOptions) -> F,
    ) -> usize {
        size_of::<F>()
    }

    #[test]
    fn the_future_of_a_get_has_no_room_for_rare_cases() {
        let size = size(get_async);
        assert!(size <= 2 * size_of::<PointGet<'static>>(), "{size}");
    }
}
