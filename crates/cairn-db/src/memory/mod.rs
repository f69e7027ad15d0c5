//! The memory of an open database: its budget, its use, and the content of its block caches.
//!
//! Memory is charged where it is allocated; this folder only measures and reports it, and connects the database to a
//! [`MemoryBudget`](cairn_memory::budget::MemoryBudget).

pub(crate) mod budget;
mod budget_report;
pub(crate) mod cached;
mod memory_report;
pub(crate) mod usage;
