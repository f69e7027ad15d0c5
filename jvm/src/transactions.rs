//! State shared by the transactions of a database: a clock, the locks, and a registry of the transactions that have a
//! name and a handle.

use std::collections::BTreeMap;
use std::sync::Arc;

use cairn_platform::Clock;
use cairn_platform::sync::Mutex;
use cairn_txn::{LockStatus, TransactionDb};
use jni_sys::jlong;

/// See the module's documentation.
pub struct Transactions {
    pub clock: Arc<dyn Clock>,
    /// The owner of the locks; `None` if the transactions take none.
    locking: Option<TransactionDb>,
    named: Mutex<BTreeMap<Vec<u8>, Named>>,
}

/// A transaction with a name.
struct Named {
    handle: jlong,
    /// Noted here because another thread may be using the transaction.
    is_prepared: bool,
}

impl Transactions {
    /// Those of a database that has none yet.
    pub fn new(clock: Arc<dyn Clock>, locking: Option<TransactionDb>) -> Transactions {
        Transactions {
            clock,
            locking,
            named: Mutex::default(),
        }
    }

    /// The key whose lock the transaction `id` waits for, and the holders of that lock.
    pub fn waits_for(&self, id: u64) -> Option<LockStatus> {
        self.locking.as_ref()?.waits_for(id)
    }

    /// The handle of the transaction `name`.
    pub fn handle_of(&self, name: &[u8]) -> Option<jlong> {
        self.named.lock().get(name).map(|named| named.handle)
    }

    /// The handles of the prepared transactions, sorted by name.
    pub fn prepared(&self) -> Vec<jlong> {
        let named = self.named.lock();
        let prepared = named.values().filter(|named| named.is_prepared);
        prepared.map(|named| named.handle).collect()
    }

    /// Registers a transaction.
    pub fn add(&self, name: Vec<u8>, handle: jlong, is_prepared: bool) {
        let named = Named {
            handle,
            is_prepared,
        };
        self.named.lock().insert(name, named);
    }

    /// Notes that the transaction `name` is prepared.
    pub fn set_prepared(&self, name: &[u8]) {
        if let Some(named) = self.named.lock().get_mut(name) {
            named.is_prepared = true;
        }
    }

    /// Removes the transaction `name`.
    pub fn remove(&self, name: &[u8]) {
        self.named.lock().remove(name);
    }
}
