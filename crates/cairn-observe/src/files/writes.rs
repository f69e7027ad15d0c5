//! Files of jobs whose writing is measured.

use std::path::Path;
use std::sync::Arc;

use cairn_platform::WritableFile;
use cairn_types::{Result, Veil};

use crate::activity::Activity;
use crate::statistics::{Histogram, Meter};

/// `file`; how long each of its writes takes counts for `histogram` and for what the thread does, if
/// anybody wants times now.
#[must_use]
pub fn measured_writes(
    file: Arc<dyn WritableFile>,
    meter: &Meter,
    histogram: Histogram,
) -> Arc<dyn WritableFile> {
    if !meter.wants_times() {
        return file;
    }
    Arc::new(Measured {
        file,
        meter: meter.clone(),
        histogram,
    })
}

/// A file whose writes are measured.
struct Measured {
    file: Arc<dyn WritableFile>,
    meter: Meter,
    histogram: Histogram,
}

impl WritableFile for Measured {
    fn append(&self, data: &[u8]) -> Result<()> {
        self.append_veiled(data, &[])
    }

    fn append_veiled(&self, data: &[u8], veils: &[Veil]) -> Result<()> {
        let began = self.meter.began();
        let appended = self.file.append_veiled(data, veils);
        if let Some(nanos) = self.meter.nanos_since(began) {
            let of_activity = Activity::current().and_then(Activity::writes);
            self.meter.update(|update| {
                for histogram in [Some(self.histogram), of_activity].into_iter().flatten() {
                    update.time(histogram, nanos / 1_000);
                }
            });
        }
        appended
    }

    fn flush(&self) -> Result<()> {
        self.file.flush()
    }

    fn sync(&self, full: bool) -> Result<()> {
        self.file.sync(full)
    }

    fn start_writeback(&self, offset: u64, len: u64) -> Result<()> {
        self.file.start_writeback(offset, len)
    }

    fn allocate(&self, len: u64) -> Result<()> {
        self.file.allocate(len)
    }

    fn truncate(&self, len: u64) -> Result<()> {
        self.file.truncate(len)
    }

    fn len(&self) -> u64 {
        self.file.len()
    }

    fn path(&self) -> &Path {
        self.file.path()
    }

    fn is_mapped(&self) -> bool {
        self.file.is_mapped()
    }

    fn slow_append(&self) -> Option<(u64, u64)> {
        self.file.slow_append()
    }

    fn close(&self) -> Result<()> {
        self.file.close()
    }
}
