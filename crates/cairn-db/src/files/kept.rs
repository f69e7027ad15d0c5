//! Files that are kept from deletion while a copy of them is made, or a program looks at them.

use super::host::Host;
use crate::catalog::deletions::Pin;

/// Keeps files from deletion while it lives.
pub(crate) struct Kept<'a, H: Host> {
    host: &'a H,
    pin: Option<Pin<'a>>,
}

impl<H: Host> Drop for Kept<'_, H> {
    fn drop(&mut self) {
        self.pin = None;
        purge_what_waited(self.host);
    }
}

/// Keeps all files that are live now, or become obsolete meanwhile.
pub(crate) fn keep_files<H: Host>(host: &H) -> Kept<'_, H> {
    Kept {
        host,
        pin: Some(host.components().catalog.deletions.pin()),
    }
}

/// Reverts one [`disable`](crate::catalog::deletions::Deletions::disable). With the last of them, obsolete files are deleted.
pub(crate) fn enable_deletions(host: &impl Host) {
    host.components().catalog.deletions.enable();
    purge_what_waited(host);
}

/// Deletes the files that became obsolete while deletions were disabled, if they are enabled again.
fn purge_what_waited(host: &impl Host) {
    if host.components().catalog.deletions.are_enabled() {
        host.purge();
    }
}
