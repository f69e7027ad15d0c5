//! The interface of the simulated policies.

use super::trace::Request;

/// A cache without values.
pub trait Policy {
    /// Looks up the key of `request` and inserts it if it is missing. Returns true if it was found.
    fn request(&mut self, request: &Request) -> bool;

    /// Removes `key`, whose file was deleted.
    fn erase(&mut self, key: u32);
}
