//! Protection of files from deletion while they are copied or examined by a program.

use super::host::Host;
use crate::catalog::deletions::Pin;

/// Prevents the deletion of files while it exists.
pub(crate) struct Kept<'a, H: Host> {
    host: &'a H,
    pin: Option<Pin<'a>>,
}

impl<H: Host> Drop for Kept<'_, H> {
    fn drop(&mut self) {
        self.pin = None;
        purge_deferred(self.host);
    }
}

/// Keeps all files that are live now, and those that become obsolete meanwhile.
pub(crate) fn keep_files<H: Host>(host: &H) -> Kept<'_, H> {
    Kept {
        host,
        pin: Some(host.components().catalog.deletions.pin()),
    }
}

/// Reverts one [`disable`](crate::catalog::deletions::Deletions::disable). The last one deletes obsolete
/// files.
pub(crate) fn enable_deletions(host: &impl Host) {
    host.components().catalog.deletions.enable();
    purge_deferred(host);
}

/// Deletes files that became obsolete while deletions were disabled, if they are enabled again.
fn purge_deferred(host: &impl Host) {
    if host.components().catalog.deletions.are_enabled() {
        host.purge();
    }
}
