//! Progress on standard error: only on a terminal, and only when it takes a while.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::global::Global;

/// Work that is done sooner is not worth a bar.
const PATIENCE: Duration = Duration::from_millis(700);

/// Most characters of a name beside a bar.
const NAME_CHARS_MAX: usize = 40;

/// How wide the column is in which one of `names` stands beside a bar.
pub(crate) fn width<'n>(names: impl Iterator<Item = &'n str>) -> usize {
    names.map(|name| shown(name).chars().count()).max().unwrap_or(0)
}

fn shown(name: &str) -> String {
    lowtail_out::cut(&lowtail_out::line(name), NAME_CHARS_MAX).into_owned()
}

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
        let what = shown(what);
        if self.bar.message() != what {
            self.bar.set_message(what);
        }
        self.bar.set_position(done);
    }

    /// So much of so much is done, where the total is not known before.
    pub(crate) fn of(&self, done: u64, total: u64, what: &str) {
        self.bar.set_length(total);
        self.set(done, what);
    }

    /// One more is done.
    pub(crate) fn step(&self) {
        self.set(self.bar.position() + 1, "");
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
