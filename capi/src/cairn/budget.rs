//! A memory budget that databases share.

use std::ffi::c_char;
use std::sync::Arc;

use cairn_memory::MemoryBudget;

use crate::cache::rocksdb_cache_t;
use crate::error::{report, report_ptr};
use crate::estimates::rocksdb_write_buffer_manager_t;
use crate::handle::{create, maybe, of, of_mut};
use crate::options::rocksdb_options_t;

handles! {
    /// A limit on the memory of several databases.
    cairn_memory_budget_t = Arc<MemoryBudget>;
}

c_destructors! {
    /// Releases the program's reference to a budget. Databases keep theirs.
    cairn_memory_budget_destroy(cairn_memory_budget_t);
}

c_functions! {
    /// Creates a budget of `bytes`. Fails, and returns null, if it is too small; the error names the smallest.
    fn cairn_memory_budget_create(bytes: usize, errptr: *mut *mut c_char) -> *mut cairn_memory_budget_t {
        report_ptr(errptr, || Ok(create(MemoryBudget::new(bytes)?)))
    }
    /// Creates a budget that takes a share of the available memory: of the smallest limit among the control groups
    /// of the process, or of the machine's memory. Fails, and returns null, if there is too little.
    fn cairn_memory_budget_create_automatic(errptr: *mut *mut c_char) -> *mut cairn_memory_budget_t {
        report_ptr(errptr, || Ok(create(MemoryBudget::automatic()?)))
    }
    /// Returns the size in bytes.
    fn cairn_memory_budget_get_bytes(budget: *const cairn_memory_budget_t) -> usize {
        of(budget).bytes()
    }
    /// Returns the smallest size, in bytes.
    fn cairn_memory_budget_get_smallest() -> usize {
        MemoryBudget::smallest()
    }
    /// Changes the size to `bytes`, also while databases use the budget. Fails if it is too small.
    fn cairn_memory_budget_set_bytes(budget: *mut cairn_memory_budget_t, bytes: usize, errptr: *mut *mut c_char) {
        report(errptr, || of(budget.cast_const()).set_budget(bytes));
    }
    /// Returns a reference to the block cache of the budget, to be destroyed like any other.
    fn cairn_memory_budget_get_cache(budget: *const cairn_memory_budget_t) -> *mut rocksdb_cache_t {
        create(of(budget).cache().clone())
    }
    /// Returns a reference to the write buffer manager of the budget, to be destroyed like any other.
    fn cairn_memory_budget_get_write_buffer_manager(budget: *const cairn_memory_budget_t) -> *mut rocksdb_write_buffer_manager_t {
        create(of(budget).write_buffer_manager().clone())
    }
    /// Puts databases opened with the options under a budget; null for none.
    fn cairn_options_set_memory_budget(opt: *mut rocksdb_options_t, budget: *const cairn_memory_budget_t) {
        of_mut(opt).db.memory_budget = maybe(budget).cloned();
    }
}
