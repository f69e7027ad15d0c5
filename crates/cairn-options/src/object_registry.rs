//! The registry of user-defined objects, to which option texts and OPTIONS files refer by name.
//!
//! There is one registry per process, like RocksDB's default registry. A registered object is found
//! by every text parsed afterwards; names of built-in objects take precedence.
//!
//! ```
//! use std::sync::Arc;
//! use cairn_options::{FamilyOptions, Options, object_registry};
//! use cairn_types::{PrefixExtractor, SliceTransform};
//!
//! struct Domain;
//! impl SliceTransform for Domain {
//!     fn name(&self) -> &str { "doc.Domain" }
//!     fn in_domain(&self, key: &[u8]) -> bool { key.contains(&b'.') }
//!     fn prefix_len(&self, key: &[u8]) -> usize { key.iter().position(|b| *b == b'.').unwrap() }
//! }
//!
//! object_registry::register_prefix_extractor(PrefixExtractor::Custom(Arc::new(Domain)));
//! let options = FamilyOptions::from_text("prefix_extractor=doc.Domain")?;
//! assert_eq!(options.get("prefix_extractor")?, "doc.Domain");
//! # Ok::<(), cairn_types::Error>(())
//! ```

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use cairn_platform::sync::Mutex;
use cairn_types::{KeyOrder, MergeOperator, PrefixExtractor};

#[derive(Default)]
struct Registered {
    comparators: BTreeMap<String, KeyOrder>,
    merge_operators: BTreeMap<String, Arc<dyn MergeOperator>>,
    prefix_extractors: BTreeMap<String, PrefixExtractor>,
}

static REGISTERED: LazyLock<Mutex<Registered>> = LazyLock::new(Mutex::default);

/// Registers `order` by its name for `comparator=NAME`.
pub fn register_comparator(order: KeyOrder) {
    let name = order.name().to_owned();
    // The replaced one is dropped after the guard: its destructor may use the registry.
    let _replaced = REGISTERED.lock().comparators.insert(name, order);
}

/// Registers `operator` by its name for `merge_operator=NAME`.
pub fn register_merge_operator(operator: Arc<dyn MergeOperator>) {
    let name = operator.name().to_owned();
    let _replaced = REGISTERED.lock().merge_operators.insert(name, operator);
}

/// Registers `extractor` by its name for `prefix_extractor=NAME`.
pub fn register_prefix_extractor(extractor: PrefixExtractor) {
    let name = extractor.name();
    let _replaced = REGISTERED.lock().prefix_extractors.insert(name, extractor);
}

/// Returns the built-in or registered comparator `name`.
#[must_use]
pub fn comparator(name: &str) -> Option<KeyOrder> {
    KeyOrder::from_name(name).or_else(|| REGISTERED.lock().comparators.get(name).cloned())
}

/// Returns the registered merge operator `name`.
#[must_use]
pub fn merge_operator(name: &str) -> Option<Arc<dyn MergeOperator>> {
    REGISTERED.lock().merge_operators.get(name).cloned()
}

/// Returns the built-in or registered prefix extractor `name`.
#[must_use]
pub fn prefix_extractor(name: &str) -> Option<PrefixExtractor> {
    PrefixExtractor::from_name(name)
        .or_else(|| REGISTERED.lock().prefix_extractors.get(name).cloned())
}
