//! The property `cairn.memory`: the memory of a database by use, as JSON.
//!
//! Memory that is charged to a block cache is measured there. Memtables, open tables and file metadata are
//! measured whether or not they are charged. Other allocations of a database are small or short-lived. They
//! account for the difference between `total` and the resident memory of the process, together with the
//! memory of other databases and of the program.

use std::collections::BTreeMap;
use std::sync::Arc;

use cairn_memory::budget::{MemoryRegion, MemorySplit};
use cairn_memory::{BlockCache, CacheKind, CacheRole, MemoryUse, RoleCounts};
use cairn_observe::event::quoted;
use cairn_platform::posix::process_memory;
use cairn_types::SequenceNumber;

use crate::catalog::family::FamilyState;
use crate::read::open_iterators::Opener;
use crate::report::json::{array, object};
use crate::shared::Shared;

/// The maximum number of iterators and of snapshots in the report: the oldest ones.
const LISTED: usize = 20;

/// Memory of one family outside of its cache, in bytes.
struct FamilyMemory {
    name: String,
    mutable: usize,
    immutable: usize,
    /// Flushed memtables that are kept for transactions.
    history: usize,
    open_tables: usize,
    tables: usize,
    files: usize,
    metadata: usize,
    versions: usize,
}

impl FamilyMemory {
    fn of(family: &FamilyState) -> FamilyMemory {
        let view = family.view().clone();
        let immutables = view.immutables.iter();
        let open: Vec<usize> = view
            .version
            .files()
            .filter_map(|(_, file)| file.table.peek())
            .map(|table| table.memory_usage())
            .collect();
        let metadata = view.version.files().map(|(_, file)| file.memory_usage());
        let metadata: Vec<usize> = metadata.collect();
        FamilyMemory {
            name: family.name().to_owned(),
            mutable: view.memtable.memory_reserved(),
            immutable: immutables.map(|memtable| memtable.memory_reserved()).sum(),
            history: family.history().1,
            open_tables: open.len(),
            tables: open.iter().sum(),
            files: metadata.len(),
            metadata: metadata.iter().sum(),
            versions: family.live_versions(),
        }
    }

    fn memtables(&self) -> usize {
        self.mutable + self.immutable + self.history
    }

    fn json(&self) -> String {
        object(&[
            ("name", quoted(&self.name)),
            (
                "memtables",
                object(&[
                    ("mutable", self.mutable.to_string()),
                    ("immutable", self.immutable.to_string()),
                    ("history", self.history.to_string()),
                ]),
            ),
            (
                "tables",
                object(&[
                    ("open", self.open_tables.to_string()),
                    ("bytes", self.tables.to_string()),
                ]),
            ),
            (
                "files",
                object(&[
                    ("count", self.files.to_string()),
                    ("bytes", self.metadata.to_string()),
                    ("versions", self.versions.to_string()),
                ]),
            ),
        ])
    }
}

/// A block, blob or row cache of the database.
struct CacheMemory {
    cache: Arc<BlockCache>,
    /// The families that use it.
    families: Vec<String>,
    roles: BTreeMap<u8, RoleCounts>,
}

impl CacheMemory {
    fn new(cache: Arc<BlockCache>) -> CacheMemory {
        let mut roles: BTreeMap<u8, RoleCounts> = BTreeMap::new();
        cache.for_each_entry(|entry| {
            let counts = roles.entry(entry.role as u8).or_default();
            counts.usage += entry.charge;
            counts.entries += 1;
        });
        CacheMemory {
            cache,
            families: Vec::new(),
            roles,
        }
    }

    fn entries(&self) -> usize {
        self.roles.values().map(|counts| counts.usage).sum()
    }

    fn json(&self) -> String {
        let cache = &self.cache;
        let kind = match cache.options().kind {
            CacheKind::Clock => "clock",
            CacheKind::Lru => "lru",
        };
        let families: Vec<String> = self.families.iter().map(|name| quoted(name)).collect();
        let roles = CacheRole::ALL.map(|role| {
            let counts = self.roles.get(&(role as u8)).copied().unwrap_or_default();
            let json = object(&[
                ("entries", counts.entries.to_string()),
                ("bytes", counts.usage.to_string()),
            ]);
            (role.name(), json)
        });
        let charged = MemoryUse::ALL.map(|what| (what.name(), cache.charged(what).to_string()));
        object(&[
            ("families", array(&families)),
            ("kind", quoted(kind)),
            ("capacity", cache.capacity().to_string()),
            ("usage", cache.usage().to_string()),
            ("pinned", cache.pinned_usage().to_string()),
            ("entries", object(&roles)),
            ("charged", object(&charged)),
        ])
    }
}

impl Shared {
    /// The property `cairn.memory`.
    pub(crate) fn memory_report(&self) -> String {
        let live = self.catalog.families().clone();
        let families: Vec<FamilyMemory> = live.iter().map(|it| FamilyMemory::of(it)).collect();
        let caches = self.caches();
        let uses = self.uses(&families, &caches);
        let entries: usize = caches.iter().map(CacheMemory::entries).sum();
        let total = entries + uses.iter().map(|(_, bytes)| bytes).sum::<usize>();
        let mut members = vec![("total", total.to_string())];
        if let Some(process) = process_memory() {
            let process = object(&[
                ("resident", process.resident.to_string()),
                ("anonymous", process.anonymous.to_string()),
                ("files", process.files.to_string()),
            ]);
            members.push(("process", process));
        }
        let uses = uses
            .iter()
            .map(|(what, bytes)| (what.name(), bytes.to_string()));
        let uses: Vec<(&str, String)> = uses.collect();
        let families: Vec<String> = families.iter().map(FamilyMemory::json).collect();
        let caches: Vec<String> = caches.iter().map(CacheMemory::json).collect();
        members.extend([
            ("cache_entries", entries.to_string()),
            ("uses", object(&uses)),
            ("caches", array(&caches)),
            ("families", array(&families)),
            ("budget", self.budget_json()),
            ("iterators", self.iterators_json()),
            ("snapshots", self.snapshots_json()),
        ]);
        object(&members)
    }

    /// The block, blob and row caches of all families, without duplicates.
    fn caches(&self) -> Vec<CacheMemory> {
        let mut caches: Vec<CacheMemory> = Vec::new();
        for family in self.catalog.families().clone().iter() {
            let reading = family.view().family.clone();
            let blobs = reading.blobs.cache().cloned();
            let rows = reading.row_cache.as_ref().map(|rows| rows.cache.clone());
            for cache in family.cache().into_iter().chain(blobs).chain(rows) {
                let known = caches.iter_mut();
                let known = known.into_iter().find(|it| Arc::ptr_eq(&it.cache, &cache));
                let name = family.name().to_owned();
                match known {
                    Some(known) if known.families.contains(&name) => {}
                    Some(known) => known.families.push(name),
                    None => {
                        let mut new = CacheMemory::new(cache);
                        new.families.push(name);
                        caches.push(new);
                    }
                }
            }
        }
        // The cache of a budget has the charges of all families, even if no family stores blocks in it.
        if let Some(budget) = &self.budget
            && !caches
                .iter()
                .any(|it| Arc::ptr_eq(&it.cache, budget.of.cache()))
        {
            caches.push(CacheMemory::new(budget.of.cache().clone()));
        }
        caches
    }

    /// Bytes outside of the caches, by use: as measured, or as charged if they are not measured or the charge
    /// is higher, because other databases share the cache.
    fn uses(&self, families: &[FamilyMemory], caches: &[CacheMemory]) -> Vec<(MemoryUse, usize)> {
        let sum = |bytes: fn(&FamilyMemory) -> usize| families.iter().map(bytes).sum::<usize>();
        let of = |what: MemoryUse| {
            let charged = caches.iter().map(|it| it.cache.charged(what));
            let charged = charged.fold(0, usize::saturating_add);
            let measured = match what {
                MemoryUse::WriteBuffer => sum(FamilyMemory::memtables),
                MemoryUse::TableReader => sum(|family| family.tables),
                MemoryUse::FileMetadata => sum(|family| family.metadata),
                // Their entries are counted, and their charge to a block cache covers the same memory.
                MemoryUse::BlobCache | MemoryUse::RowCache => return (what, 0),
                _ => 0,
            };
            (what, measured.max(charged))
        };
        MemoryUse::ALL.map(of).to_vec()
    }

    /// The memory budget, its split and its last moves, the newest first; null without a budget.
    fn budget_json(&self) -> String {
        let Some(budget) = &self.budget else {
            return "null".to_owned();
        };
        let split_json = |split: MemorySplit| {
            let regions = MemoryRegion::ALL.map(|it| (it.name(), split.get(it).to_string()));
            object(&regions)
        };
        let now = self.context.world.clock.monotonic_nanos();
        let moves = budget.of.moves();
        let moves = moves.iter().rev().take(LISTED).map(|record| {
            let made = &record.made;
            let ago = now.saturating_sub(record.at) as f64 / 1e9;
            object(&[
                ("seconds", format!("{ago:.3}")),
                ("from", quoted(made.from.name())),
                ("to", quoted(made.to.name())),
                ("bytes", made.bytes.to_string()),
                ("reason", quoted(&made.to_string())),
                ("split", split_json(record.split)),
            ])
        });
        let moves: Vec<String> = moves.collect();
        object(&[
            ("bytes", budget.of.bytes().to_string()),
            ("automatic", budget.of.is_automatic().to_string()),
            ("split", split_json(budget.of.split())),
            ("moves", array(&moves)),
        ])
    }

    fn iterators_json(&self) -> String {
        let (open, unlisted) = self.iterators.list();
        let now = self.context.world.clock.monotonic_nanos();
        let families = self.catalog.families().clone();
        let oldest = open.iter().take(LISTED).map(|open| {
            let held = open.held;
            let family = families.get(held.family);
            let seconds = now.saturating_sub(held.since) as f64 / 1e9;
            let is_current = family.is_some_and(|family| family.view().number == held.view);
            let family = family.map_or("", |family| family.name());
            object(&[
                ("family", quoted(family)),
                ("seconds", format!("{seconds:.3}")),
                ("sequence", shown(held.seq)),
                ("view", held.view.to_string()),
                ("current", is_current.to_string()),
                ("thread", quoted(&open.opener.name)),
                ("thread_number", open.opener.number.to_string()),
            ])
        });
        let oldest: Vec<String> = oldest.collect();
        object(&[
            ("open", (open.len() as u64 + unlisted).to_string()),
            ("oldest", array(&oldest)),
        ])
    }

    fn snapshots_json(&self) -> String {
        let open = self.catalog.snapshots.open();
        let now = self.context.world.clock.wall_seconds();
        let oldest = open.iter().take(LISTED).map(|taken| {
            let seconds = match taken.seconds {
                0 => "null".to_owned(),
                then => now.saturating_sub(then).to_string(),
            };
            let Opener { name, number } = &taken.opener;
            object(&[
                ("sequence", shown(taken.seq)),
                ("count", taken.count.to_string()),
                ("seconds", seconds),
                ("thread", quoted(name)),
                ("thread_number", number.to_string()),
            ])
        });
        let oldest: Vec<String> = oldest.collect();
        let count: usize = open.iter().map(|taken| taken.count).sum();
        object(&[("open", count.to_string()), ("oldest", array(&oldest))])
    }
}

/// Returns a sequence number; null for a tailing iterator, which sees all writes.
fn shown(seq: SequenceNumber) -> String {
    match seq {
        SequenceNumber::MAX => "null".to_owned(),
        seq => seq.0.to_string(),
    }
}
