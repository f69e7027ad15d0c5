//! Verification of every block of an open database.

use std::sync::Arc;

use cairn_observe::Activity;
use cairn_observe::statistics::Ticker;
use cairn_observe::threads::Operation;
use cairn_options::ReadOptions;
use cairn_read::View;
use cairn_types::{Error, Result};

use crate::catalog::family::FamilyState;
use crate::db::Db;

impl Db {
    /// Reads every block of every table and every value of every blob file, bypassing the cache, and verifies
    /// their checksums. Writes and jobs proceed; files that they add are not verified.
    ///
    /// # Errors
    ///
    /// The first damage found: file, offset, expected and actual content; `TimedOut` if the deadline in
    /// `options` has passed.
    pub fn verify_checksum(&self, options: &ReadOptions) -> Result<()> {
        let shared = self.shared();
        let _working = shared
            .telemetry
            .begin_operation("", Operation::VerifyDbChecksum);
        let views: Vec<Arc<View>> = {
            let families = shared.catalog.families();
            let view = |family: &Arc<FamilyState>| shared.limited(family.view_full(), options);
            families.iter().map(view).collect()
        };
        let result = views.iter().try_for_each(|view| {
            Activity::VerifyDbChecksum.run(|| self.verify_view(view, options))
        });
        drop(views);
        shared.purge_in_background();
        result
    }

    fn verify_view(&self, view: &View, options: &ReadOptions) -> Result<()> {
        let reading = &view.family;
        let in_time = || match options.deadline {
            0 => Ok(()),
            deadline if reading.clock.wall_micros() < deadline => Ok(()),
            _ => Err(Error::timed_out(
                "the deadline of the verification has passed",
            )),
        };
        // A file is read entirely, once.
        let verified = |bytes: u64, result: Result<()>| {
            self.shared()
                .telemetry
                .tick(Ticker::VerifyChecksumReadBytes, bytes);
            result
        };
        for (level, file) in view.version.files() {
            in_time()?;
            let table = reading.tables.open(file, level, &reading.io)?;
            verified(file.size, table.verify_checksums(&reading.io))?;
        }
        for (number, blobs) in view.version.blob_files() {
            in_time()?;
            let checked = reading.blobs.file(*number)?.verify(&reading.io);
            verified(blobs.file_size(), checked.map(|_| ()))?;
        }
        Ok(())
    }
}
