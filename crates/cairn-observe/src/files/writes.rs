//! Files whose writes are timed.

use std::path::Path;
use std::sync::Arc;

use cairn_platform::fs::FileMode;
use cairn_platform::{WritableFile, wrapper};
use cairn_types::{Result, Veil};

use crate::activity::Activity;
use crate::statistics::{Histogram, Meter};

/// Wraps `file` so that the time of each write is recorded in `histogram` and in the one for the
/// thread's activity, if times are enabled.
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

/// A file whose writes are timed.
struct Measured {
    file: Arc<dyn WritableFile>,
    meter: Meter,
    histogram: Histogram,
}

impl wrapper::WritableFileWrapper for Measured {
    fn target(&self) -> &dyn WritableFile {
        &*self.file
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

    fn successor(&self, _path: &Path, _mode: FileMode) -> Result<Option<Arc<dyn WritableFile>>> {
        // The files of jobs have no successors.
        Ok(None)
    }
}
