//! Progress on standard error: only on a terminal, and only when it takes a while.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::args::Global;

/// Work that is done sooner is not worth a bar.
const PATIENCE: Duration = Duration::from_millis(700);

/// A bar that shows itself when its time has come.
#[derive(Debug)]
pub(crate) struct Bar {
    bar: ProgressBar,
    began: Instant,
    wanted: bool,
}

impl Bar {
    /// A bar for `total` pieces of work, or bytes, in the given style.
    pub(crate) fn new(global: &Global, total: u64, template: &str) -> Self {
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden());
        let style = ProgressStyle::with_template(template);
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        let wanted = !global.quiet && std::io::stderr().is_terminal();
        Bar { bar, began: Instant::now(), wanted }
    }

    /// So much is done, and this is what is being done.
    pub(crate) fn set(&self, done: u64, what: &str) {
        if self.wanted && self.bar.is_hidden() && self.began.elapsed() > PATIENCE {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        if self.bar.message() != what {
            self.bar.set_message(what.to_string());
        }
        self.bar.set_position(done);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
