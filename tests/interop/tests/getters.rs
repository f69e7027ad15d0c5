//! All getters of the C interface: on new objects and after every setter, both libraries return the
//! same.
//!
//! A separate process, because settings of the default environment affect all databases, and all
//! objects that read it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use cairn_interop::cairn;
use cairn_interop::reference;
use cairn_interop::twin::differences::{self, Difference};
use cairn_interop::twin::getters::{Library, Value};

/// Functions with names like getters that take more than the object, or return another object.
const NEED_MORE: [&str; 9] = [
    "rocksdb_export_import_files_metadata_get_files",
    "rocksdb_options_get_info_log",
    "rocksdb_options_statistics_get_ticker_count",
    "rocksdb_writebatch_wi_get_from_batch",
    "rocksdb_writebatch_wi_get_from_batch_and_db",
    "rocksdb_writebatch_wi_get_from_batch_and_db_cf",
    "rocksdb_writebatch_wi_get_from_batch_cf",
    "rocksdb_writebatch_wi_get_pinned_from_batch_and_db",
    "rocksdb_writebatch_wi_get_pinned_from_batch_and_db_cf",
];

/// Two libraries, and the differences between the results of their getters.
struct Comparison {
    rocksdb: Library,
    cairn: Library,
    /// `published` or `newest`: the set that a row of the accepted differences may name.
    set: String,
    accepted: Vec<Difference>,
    /// A type, and the getters that both libraries have.
    getters: (String, Vec<String>),
    compared: usize,
    different: Vec<String>,
}

impl Comparison {
    /// Compares all getters of two objects; `state` describes their state.
    fn compare(&mut self, object: &str, handles: [*mut std::ffi::c_void; 2], state: &str) {
        if self.getters.0 != object {
            let getters = self.cairn.getters(object).into_iter();
            let both = getters.filter(|getter| self.rocksdb.has(getter));
            self.getters = (object.to_owned(), both.map(str::to_owned).collect());
        }
        for getter in &self.getters.1 {
            let theirs = self.rocksdb.get(getter, handles[0]);
            let ours = self.cairn.get(getter, handles[1]);
            self.compared += 1;
            if theirs == ours {
                continue;
            }
            let op = format!("{state}{getter}");
            let accepted = |row: &Difference| row.covers(&self.set, &op, &theirs, &ours);
            if !self.accepted.iter().any(accepted) {
                self.different
                    .push(format!("{op}: rocksdb {theirs}, cairn {ours}"));
            }
        }
    }

    /// Creates an object with both libraries, and applies `change` to both.
    fn on_new(
        &mut self,
        object: &str,
        state: &str,
        change: impl Fn(&Library, *mut std::ffi::c_void),
    ) {
        let handles = [&self.rocksdb, &self.cairn].map(|library| library.create(object));
        // An unsupported feature has no objects.
        if handles[1].is_null() {
            return;
        }
        change(&self.rocksdb, handles[0]);
        change(&self.cairn, handles[1]);
        self.compare(object, handles, state);
        self.rocksdb.destroy(object, handles[0]);
        self.cairn.destroy(object, handles[1]);
    }
}

/// Runs `work` with each available RocksDB library.
fn with_each(work: impl Fn(&mut Comparison)) {
    if cairn_bench::rocksdb::Library::left_out("rocksdb") {
        return;
    }
    for path in reference::libraries() {
        let rocksdb = Library::load(&path).unwrap();
        let newest = rocksdb.has("rocksdb_options_get_fast_sst_open");
        let mut comparison = Comparison {
            rocksdb,
            cairn: Library::load(&cairn::c_library()).unwrap(),
            set: if newest { "newest" } else { "published" }.to_owned(),
            accepted: differences::all(),
            getters: (String::new(), Vec::new()),
            compared: 0,
            different: Vec::new(),
        };
        work(&mut comparison);
        let Comparison {
            different,
            compared,
            ..
        } = comparison;
        assert!(compared > 150, "{compared} answers compared");
        let count = different.len();
        assert!(different.is_empty(), "{count}: {different:#?}");
    }
}

#[test]
fn getters_return_what_rocksdbs_return() {
    getters_of_new_objects();
    getters_after_each_setter();
}

fn getters_of_new_objects() {
    with_each(|comparison| {
        let objects = comparison.cairn.types(&comparison.rocksdb);
        for object in objects {
            comparison.on_new(&object, "", |_, _| {});
        }
    });
}

fn getters_after_each_setter() {
    with_each(|comparison| {
        let objects = comparison.cairn.types(&comparison.rocksdb);
        for object in objects {
            let setters = comparison.cairn.setters(&object).into_iter();
            let setters: Vec<(String, Vec<Value>)> = setters
                .filter(|(setter, _)| comparison.rocksdb.has(setter))
                .map(|(setter, values)| (setter.to_owned(), values))
                .collect();
            for (setter, values) in setters {
                for value in values {
                    let state = match value {
                        Value::None => format!("{setter}; "),
                        Value::Number(number) => format!("{setter}({}); ", number.cast_signed()),
                        Value::Fraction(number) => format!("{setter}({number}); "),
                    };
                    comparison.on_new(&object, &state, |library, handle| {
                        library.set(&setter, handle, value);
                    });
                }
            }
        }
    });
}

#[test]
fn no_getter_is_missed() {
    with_each(|comparison| {
        comparison.compared = usize::MAX;
        let objects = comparison.cairn.types(&comparison.rocksdb);
        let overlooked = comparison.cairn.overlooked(&objects).into_iter();
        let overlooked: Vec<&str> = overlooked
            .filter(|name| !NEED_MORE.contains(name))
            .collect();
        assert!(overlooked.is_empty(), "{overlooked:?}");
    });
}
