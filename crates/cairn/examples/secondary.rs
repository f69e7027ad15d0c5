//! A secondary instance that reads a database while the program that writes it runs.
//!
//! `cargo run -p cairn --example secondary`, or with the megabytes of log that it catches up with and the length of a
//! value: `cargo run --release -p cairn --example secondary -- 100 400`

use std::time::Duration;

use cairn::{Db, Options, World, WriteBatch};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: usize| arguments.next().map_or(Ok(default), |text| text.parse());
    let (megabytes, value_len) = (number(1)?, number(400)?);
    let place = tempfile::tempdir()?;
    let options = Options::default()
        .create_if_missing(true)
        .text("write_buffer_size=1G")?;
    let primary = Db::builder(place.path().join("db"))
        .options(options)
        .open()?;
    let secondary =
        Db::builder(place.path().join("db")).open_as_secondary(place.path().join("secondary"))?;

    let entries = megabytes * 1_000_000 / (16 + value_len);
    for first in (0..entries).step_by(10) {
        let mut batch = WriteBatch::new();
        for entry in first..entries.min(first + 10) {
            // In no order.
            let key = (entry as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            batch.put(format!("{key:016x}").as_bytes(), &vec![b'v'; value_len]);
        }
        primary.write(&batch)?;
    }
    // The state is that of the opening until the next catch-up, also for iterators that exist.
    assert_eq!(secondary.range("".."~").into_iter().count(), 0);
    let iterator = secondary.range("".."~");
    let clock = World::posix().clock;
    let begin = clock.monotonic_nanos();
    secondary.try_catch_up_with_primary()?;
    let time = Duration::from_nanos(clock.monotonic_nanos() - begin);
    println!("{megabytes} MB, {entries} entries: {time:?}");
    assert_eq!(iterator.into_iter().count(), 0);
    assert_eq!(secondary.range("".."~").into_iter().count(), entries);
    let refused = secondary.put(b"key", b"value");
    assert!(refused.is_err(), "a secondary instance is not written");

    // The primary may delete its files.
    primary.flush()?;
    primary.close()?;
    secondary.try_catch_up_with_primary()?;
    assert_eq!(secondary.range("".."~").into_iter().count(), entries);
    Ok(())
}
