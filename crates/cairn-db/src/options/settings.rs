//! The options of an open database, and the locks for changing them and for writing the OPTIONS file.
//!
//! Invariants:
//!
//! OPT1. Changes of options are serialized by [`Settings::begin_change`], whose lock precedes most others.
//! OPT2. The newest OPTIONS file has the newest options: files are written under [`Settings::lock_file`], whose
//! lock follows most others.

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use cairn_options::DbOptions;
use cairn_platform::sync::{AtomicBool, Ordering};

use crate::locks::{Locks, Rank, Ranked, RankedGuard};

/// The options of an open database.
pub(crate) struct Settings {
    /// Options with their effective values. Replaced as a whole when they change.
    current: ArcSwap<DbOptions>,
    change: Ranked<()>,
    file: Ranked<()>,
    /// True if the current options have not been written to an OPTIONS file.
    unsaved: AtomicBool,
}

/// A guard of a change of options.
pub(crate) struct Change<'a> {
    settings: &'a Settings,
    _alone: RankedGuard<'a, ()>,
}

/// A guard for writing and listing OPTIONS files.
pub(crate) struct OptionsFileLock<'a> {
    _alone: RankedGuard<'a, ()>,
}

impl Settings {
    pub(crate) fn new(options: DbOptions, locks: Locks) -> Settings {
        Settings {
            current: ArcSwap::from_pointee(options),
            change: locks.mutex(Rank::OptionsChange, ()),
            file: locks.mutex(Rank::OptionsFile, ()),
            unsaved: AtomicBool::new(false),
        }
    }

    /// Returns the current options without counting a reference.
    pub(crate) fn get(&self) -> Guard<Arc<DbOptions>> {
        self.current.load()
    }

    /// Waits for a change in progress and blocks further ones. The caller holds no lock.
    pub(crate) fn begin_change(&self) -> Change<'_> {
        Change {
            settings: self,
            _alone: self.change.lock(),
        }
    }

    /// Waits for a file that is being written. The caller acquires no lock until it drops the result.
    pub(crate) fn lock_file(&self) -> OptionsFileLock<'_> {
        OptionsFileLock {
            _alone: self.file.lock(),
        }
    }
}

impl Change<'_> {
    /// Returns the current options.
    pub(crate) fn before(&self) -> Arc<DbOptions> {
        self.settings.current.load_full()
    }

    /// Puts `options` into effect.
    pub(crate) fn replace(&self, options: DbOptions) {
        self.settings.current.store(Arc::new(options));
    }

    /// True if the last change could not be written to an OPTIONS file.
    pub(crate) fn is_unsaved(&self) -> bool {
        // Relaxed, as below: changes are serialized.
        self.settings.unsaved.load(Ordering::Relaxed)
    }

    /// Records whether the current options are in an OPTIONS file.
    pub(crate) fn set_unsaved(&self, unsaved: bool) {
        self.settings.unsaved.store(unsaved, Ordering::Relaxed);
    }
}
