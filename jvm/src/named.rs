//! The transactions of a database that have a name and a handle.

use std::collections::BTreeMap;

use cairn_platform::sync::Mutex;
use jni_sys::jlong;

/// By name: the handle, and true if the transaction is prepared. This is noted here because another thread may be
/// using the transaction.
#[derive(Default)]
pub struct Named(Mutex<BTreeMap<Vec<u8>, (jlong, bool)>>);

impl Named {
    /// The handle of the transaction `name`.
    pub fn handle_of(&self, name: &[u8]) -> Option<jlong> {
        self.0.lock().get(name).map(|(handle, _)| *handle)
    }

    /// The handles of the prepared transactions, sorted by name.
    pub fn prepared(&self) -> Vec<jlong> {
        let named = self.0.lock();
        let prepared = named.values().filter(|(_, is_prepared)| *is_prepared);
        prepared.map(|(handle, _)| *handle).collect()
    }

    /// Adds a transaction.
    pub fn add(&self, name: Vec<u8>, handle: jlong, is_prepared: bool) {
        self.0.lock().insert(name, (handle, is_prepared));
    }

    /// Notes that the transaction `name` is prepared.
    pub fn set_prepared(&self, name: &[u8]) {
        if let Some((_, is_prepared)) = self.0.lock().get_mut(name) {
            *is_prepared = true;
        }
    }

    /// Removes the transaction `name`.
    pub fn remove(&self, name: &[u8]) {
        self.0.lock().remove(name);
    }
}
