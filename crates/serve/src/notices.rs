//! What is said aloud, and not too often.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Of the same subject, one notice in this time at most.
const PAUSE: Duration = Duration::from_secs(60);

/// Says what went wrong. A client that causes the same trouble again and again fills no log.
pub(crate) struct Notices {
    say: Box<dyn Fn(&str) + Send + Sync>,
    said: Mutex<Vec<Said>>,
}

struct Said {
    subject: &'static str,
    at: Instant,
    unsaid: u64,
}

impl Notices {
    pub(crate) fn new(say: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Notices { say: Box::new(say), said: Mutex::default() }
    }

    /// Says it, unless something of this subject was said within the last minute. What was not said is counted.
    pub(crate) fn say(&self, subject: &'static str, text: &str) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let more = match said.iter_mut().find(|said| said.subject == subject) {
            None => {
                said.push(Said { subject, at: now, unsaid: 0 });
                String::new()
            }
            Some(last) if now - last.at < PAUSE => {
                last.unsaid += 1;
                return;
            }
            Some(last) => {
                last.at = now;
                match std::mem::take(&mut last.unsaid) {
                    0 => String::new(),
                    unsaid => format!(" ({unsaid} more times since the last notice)"),
                }
            }
        };
        drop(said);
        (self.say)(&format!("{subject}: {text}{more}"));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_trouble_that_comes_a_thousand_times_is_said_once_and_hides_no_other() {
        let said = Arc::new(Mutex::new(Vec::new()));
        let notices = {
            let said = Arc::clone(&said);
            Notices::new(move |text| said.lock().unwrap().push(text.to_string()))
        };
        for _ in 0..1000 {
            notices.say("accept", "no file left");
        }
        notices.say("thread", "panicked");
        assert_eq!(*said.lock().unwrap(), ["accept: no file left", "thread: panicked"]);
    }
}
