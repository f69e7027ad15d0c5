//! Tests of the public API, using only what a user of the crate sees.

#![expect(clippy::unwrap_used, reason = "an error fails the test")]
#![expect(
    clippy::disallowed_methods,
    reason = "tests on real files damage and list them"
)]

mod batches;
mod blobs;
mod errors;
mod examples;
mod exiting_threads;
mod families;
mod futures;
mod ingestion;
mod iteration;
mod merge;
mod opening;
mod snapshots;
mod statistics;
mod ttl;

use cairn::{Db, Options, World};

/// A fresh database in memory with the options in `text`.
fn database(text: &str) -> Db {
    let options = Options::default().create_if_missing(true);
    let options = options.text(text).unwrap();
    let builder = Db::builder("/db").world(World::in_memory());
    builder.options(options).open().unwrap()
}

/// All entries of an iteration as text, `key=value`.
fn shown(entries: impl IntoIterator<Item = cairn::Result<cairn::KeyValue>>) -> Vec<String> {
    let text = |entry: cairn::Result<cairn::KeyValue>| {
        let (key, value) = entry.unwrap();
        let [key, value] = [&key, &value].map(|bytes| String::from_utf8_lossy(bytes));
        format!("{key}={value}")
    };
    entries.into_iter().map(text).collect()
}
