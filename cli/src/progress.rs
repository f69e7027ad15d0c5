//! A bar on standard error for work that takes long, where somebody looks.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How far a piece of work has come. Shows nothing where standard error is no terminal.
pub struct Progress(ProgressBar);

impl Progress {
    /// A bar that counts things.
    #[must_use]
    pub fn items(what: &str, total: Option<u64>) -> Progress {
        let template = match total {
            Some(_) => "{prefix} {wide_bar} {human_pos}/{human_len} {per_sec} {eta}",
            None => "{prefix} {spinner} {human_pos} {per_sec}",
        };
        Progress::styled(what, template, total)
    }

    /// A bar that counts bytes.
    #[must_use]
    pub fn bytes(what: &str) -> Progress {
        let template = "{prefix} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}";
        Progress::styled(what, template, Some(0))
    }

    fn styled(what: &str, template: &str, total: Option<u64>) -> Progress {
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template(template);
        bar.set_style(style.expect("the templates above are sound"));
        bar.set_prefix(what.to_owned());
        Progress(bar)
    }

    /// Says how much there is to do.
    pub fn set_total(&self, total: u64) {
        self.0.set_length(total);
    }

    /// Some more is done.
    pub fn advance(&self, more: u64) {
        self.0.inc(more);
    }

    /// All is done: the bar goes.
    pub fn finish(&self) {
        self.0.finish_and_clear();
    }
}
