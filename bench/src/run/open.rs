//! Opening a database until the first key is read, again and again.

use std::time::Instant;

use cairn::Result;

use super::{Checked, Outcome, Run, seed, settings, wrong_value};
use crate::engine::{Engine, Session, Source};
use crate::measured::Measured;
use crate::plan::Benchmark;
use crate::tally::Tally;
use crate::usage::{Usage, peak_memory, reset_peak};
use crate::work::Rng;

impl<S: Source> Run<'_, S> {
    /// Opens the database, gets a random key and closes it, as often as it is asked for. Closing is
    /// not measured; what the engine does in the background while the key is read is.
    pub(super) fn open_again_and_again(
        &mut self,
        benchmark: &Benchmark,
        checked: Checked,
    ) -> Result<Outcome> {
        if let Some(db) = self.db.take() {
            db.close()?;
        }
        let flags = &benchmark.flags;
        let (values, layout) = (checked.values(flags), flags.layout());
        let mut rng = Rng::new(seed(benchmark, 0));
        let mut key = vec![0; flags.key_size];
        let (mut tally, mut usage) = (Tally::default(), Usage::default());
        let (mut opening, mut elapsed) = (0, 0);
        reset_peak();
        for _ in 0..benchmark.operations() {
            let number = rng.below(flags.num.max(1));
            layout.write(number, &mut key);
            let (before, began) = (Usage::now(), Instant::now());
            let db = self.source.open(&self.dir, &self.options)?;
            let opened = began.elapsed().as_nanos() as u64;
            let found = db.session(&settings(flags)).get(&key, |value| {
                tally.bytes += (flags.key_size + value.len()) as u64;
                match checked.is_right(&values, number, value) {
                    true => Ok(()),
                    false => Err(wrong_value(number, value.len())),
                }
            })?;
            let nanos = began.elapsed().as_nanos() as u64;
            usage.add(&Usage::now().since(&before));
            opening += opened;
            elapsed += nanos;
            tally.looked += 1;
            tally.found += u64::from(found);
            tally.done += 1;
            if flags.histogram {
                tally.record(nanos);
            }
            db.close()?;
        }
        tally.nanos = elapsed;
        let mut measured = Measured::of(&benchmark.name, &tally, elapsed);
        measured.usage = usage;
        measured.peak_memory = peak_memory();
        measured.space = crate::folder::space(&self.dir);
        let each = |nanos: u64| nanos as f64 / 1e6 / tally.done.max(1) as f64;
        measured.figures = vec![
            ("milliseconds to open".to_owned(), each(opening)),
            ("milliseconds to the first get".to_owned(), each(elapsed)),
        ];
        Ok(Outcome {
            tally,
            measured,
            text: String::new(),
        })
    }
}
