//! The text that is served, made once and shared.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use hyper::body::Bytes;

use crate::notices::Notices;
use crate::supervise::words;

/// So many texts are in memory at most: the newest, and those that slow clients still get.
pub const TEXTS_MAX: usize = 3;

/// Where texts come from.
pub trait Source: Send + Sync + 'static {
    /// Changes whenever the text does. It is asked for with each request and has to be cheap.
    fn version(&self) -> u64;

    /// The text of now.
    ///
    /// # Errors
    /// What is wrong, if there is no text. The client gets status 500 without these words.
    fn text(&self) -> Result<String, String>;
}

/// What is served, and where.
pub struct Site {
    /// The one path that there is, such as `/metrics`.
    pub path: &'static str,
    /// The media type of the text.
    pub content_type: &'static str,
    /// Where the text comes from.
    pub source: Box<dyn Source>,
}

/// Texts of a site.
pub(crate) struct Texts {
    pub(crate) site: Site,
    notices: Arc<Notices>,
    made: Mutex<Made>,
}

#[derive(Default)]
struct Made {
    version: Option<u64>,
    /// `None` if it could not be made.
    newest: Option<Arc<String>>,
    old: Vec<Weak<String>>,
}

/// Bytes of a text that lives as long as somebody gets it.
struct Held(Arc<String>);

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl Texts {
    pub(crate) fn new(site: Site, notices: Arc<Notices>) -> Self {
        Texts { site, notices, made: Mutex::default() }
    }

    /// The newest text; `None` if it cannot be made.
    pub(crate) fn newest(&self) -> Option<Bytes> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        made.old.retain(|text| text.strong_count() > 0);
        // The newest may be held by a client. If it is not, it makes room.
        let held = made.newest.as_ref().is_some_and(|text| Arc::strong_count(text) > 1);
        let room = made.old.len() + usize::from(held) < TEXTS_MAX;
        let version = self.site.source.version();
        if made.version != Some(version) && room {
            if let Some(text) = made.newest.take().filter(|_| held) {
                made.old.push(Arc::downgrade(&text));
            }
            made.newest = self.make();
            made.version = Some(version);
        }
        made.newest.as_ref().map(|text| Bytes::from_owner(Held(Arc::clone(text))))
    }

    fn make(&self) -> Option<Arc<String>> {
        let source = &self.site.source;
        let why = match catch_unwind(AssertUnwindSafe(|| source.text())) {
            Ok(Ok(text)) => return Some(Arc::new(text)),
            Ok(Err(why)) => why,
            Err(panic) => format!("panic: {}", words(&*panic)),
        };
        self.notices.say("HTTP text", &why);
        None
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    struct Counted {
        version: Arc<AtomicU64>,
        made: Arc<AtomicU64>,
    }

    impl Source for Counted {
        fn version(&self) -> u64 {
            self.version.load(Ordering::Relaxed)
        }

        fn text(&self) -> Result<String, String> {
            self.made.fetch_add(1, Ordering::Relaxed);
            match self.version() {
                13 => panic!("unlucky"),
                14 => Err("empty".to_string()),
                version => Ok(version.to_string()),
            }
        }
    }

    fn texts() -> (Texts, Arc<AtomicU64>, Arc<AtomicU64>) {
        let (version, made) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
        let source = Counted { version: Arc::clone(&version), made: Arc::clone(&made) };
        let site = Site { path: "/", content_type: "text/plain", source: Box::new(source) };
        (Texts::new(site, Arc::new(Notices::new(|_| ()))), version, made)
    }

    #[test]
    fn a_text_is_made_once_for_all_who_ask() {
        let (texts, version, made) = texts();
        for _ in 0..1000 {
            assert_eq!(texts.newest().unwrap(), "0");
        }
        assert_eq!(made.load(Ordering::Relaxed), 1);
        version.store(1, Ordering::Relaxed);
        assert_eq!(texts.newest().unwrap(), "1");
        assert_eq!(made.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn clients_that_hold_old_texts_do_not_make_them_more() {
        let (texts, version, made) = texts();
        let mut held: Vec<Bytes> = Vec::new();
        for at in 0..100 {
            version.store(100 + at, Ordering::Relaxed);
            held.push(texts.newest().unwrap());
        }
        assert_eq!(made.load(Ordering::Relaxed), TEXTS_MAX as u64);
        assert_eq!(held[99], "102");
        // One that lets go makes room for what is new.
        held.remove(0);
        assert_eq!(texts.newest().unwrap(), "199");
        held.clear();
        version.store(300, Ordering::Relaxed);
        assert_eq!(texts.newest().unwrap(), "300");
    }

    #[test]
    fn a_panic_while_a_text_is_made_ends_nothing() {
        let (texts, version, made) = texts();
        for bad in [13, 14] {
            version.store(bad, Ordering::Relaxed);
            assert_eq!(texts.newest(), None);
            assert_eq!(texts.newest(), None);
        }
        assert_eq!(made.load(Ordering::Relaxed), 2, "it is not tried again with each request");
        version.store(15, Ordering::Relaxed);
        assert_eq!(texts.newest().unwrap(), "15");
    }
}
