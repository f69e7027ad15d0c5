//! Files of jobs whose writing is measured.

use std::path::Path;
use std::sync::Arc;

use cairn_platform::fs::FileMode;
use cairn_platform::{WritableFile, wrapper};
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
        // Files of jobs have none.
        Ok(None)
    }
}
