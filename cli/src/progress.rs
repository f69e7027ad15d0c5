//! A progress bar on standard error, if that is a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Progress of a task. Invisible if standard error is not a terminal.
pub struct Progress(ProgressBar);

impl Progress {
    /// Creates a bar that counts items.
    #[must_use]
    pub fn items(what: &str, total: Option<u64>) -> Progress {
        let template = match total {
            Some(_) => "{prefix} {wide_bar} {human_pos}/{human_len} {per_sec} {eta}",
            None => "{prefix} {spinner} {human_pos} {per_sec}",
        };
        Progress::styled(what, template, total)
    }

    /// Creates a bar that counts bytes.
    #[must_use]
    pub fn bytes(what: &str) -> Progress {
        let template = "{prefix} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}";
        Progress::styled(what, template, Some(0))
    }

    fn styled(what: &str, template: &str, total: Option<u64>) -> Progress {
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template(template);
        bar.set_style(style.expect("the templates above are valid"));
        bar.set_prefix(what.to_owned());
        Progress(bar)
    }

    /// Sets the total.
    pub fn set_total(&self, total: u64) {
        self.0.set_length(total);
    }

    /// Adds to the progress.
    pub fn advance(&self, more: u64) {
        self.0.inc(more);
    }

    /// Sets the progress, unless it is already further.
    pub fn reach(&self, position: u64) {
        if self.0.position() < position {
            self.0.set_position(position);
        }
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.0.finish_and_clear();
    }
}
