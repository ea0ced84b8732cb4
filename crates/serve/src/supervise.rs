//! Work that never ends, though it may panic.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use crate::notices::Notices;

/// The pause before the first new start; it doubles up to [`PAUSE_MAX`].
const PAUSE: Duration = Duration::from_millis(100);
/// The longest pause. Work that has lasted for so long starts over with the shortest.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// Does the work again and again, and says why it had to be started again.
pub(crate) fn supervise(
    notices: &Notices,
    mut work: impl FnMut() -> Result<(), std::io::Error>,
) -> ! {
    let mut pause = PAUSE;
    loop {
        let began = Instant::now();
        let why = match catch_unwind(AssertUnwindSafe(&mut work)) {
            Ok(Ok(())) => "it ended".to_string(),
            Ok(Err(error)) => error.to_string(),
            Err(panic) => format!("it panicked: {}", words(&*panic)),
        };
        notices.say("HTTP server", &format!("stopped and starts again: {why}"));
        if began.elapsed() >= PAUSE_MAX {
            pause = PAUSE;
        }
        std::thread::sleep(pause);
        pause = (2 * pause).min(PAUSE_MAX);
    }
}

/// What a panic said.
pub(crate) fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no words")
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn work_that_panics_and_work_that_fails_are_started_again_and_it_is_said() {
        let (say, said) = mpsc::channel();
        let (work, worked) = mpsc::channel();
        std::thread::spawn(move || {
            let notices = Notices::new(move |text| say.send(text.to_string()).unwrap());
            let mut times = 0;
            supervise(&notices, || {
                times += 1;
                work.send(times).unwrap();
                match times {
                    1 => panic!("a bug"),
                    2 => Err(std::io::Error::other("no memory")),
                    _ => loop {
                        std::thread::park();
                    },
                }
            })
        });
        let soon = Duration::from_secs(60);
        for time in 1..=3 {
            assert_eq!(worked.recv_timeout(soon), Ok(time));
        }
        let text = said.recv_timeout(soon).expect("it is said");
        assert_eq!(text, "HTTP server: stopped and starts again: it panicked: a bug");
    }
}
