//! What the tests under loom and shuttle have in common: keys, and locks that end with a deadlock at worst.

use super::*;

pub(super) fn key(n: usize) -> LockKey {
    LockKey::new(0, &[n as u8])
}

/// Waits without a limit. Returns false if that would be a deadlock.
pub(super) fn lock(locks: &LockManager, id: u64, n: usize, exclusive: bool) -> bool {
    let owner = Owner::new(id, 0);
    match locks.lock(&key(n), &request(&owner, exclusive)) {
        Ok(()) => true,
        Err(error) => {
            assert_eq!(error.subcode(), Subcode::Deadlock);
            false
        }
    }
}

pub(super) fn request(owner: &Owner, exclusive: bool) -> Request<'_> {
    Request {
        owner,
        exclusive,
        timeout: None,
        detect: Some(50),
    }
}
