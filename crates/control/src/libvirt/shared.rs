//! One connection for each URI, for those who have no place to keep one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::{Connection, Error, Options};

static OPEN: Mutex<BTreeMap<String, Arc<Connection>>> = Mutex::new(BTreeMap::new());

/// Does it with the connection to this URI, which is opened when it is first asked for and kept. One that libvirtd has
/// closed, because it was started anew, is opened again, and `action` done a second time: it must be such that this
/// does not matter. One that hangs is given up; the next call opens another.
///
/// # Errors
/// If there is no connection; what `action` says.
pub fn with<T>(uri: &str, action: impl Fn(&Connection) -> Result<T, Error>) -> Result<T, Error> {
    let once = || {
        let connection = get(uri)?;
        let done = action(&connection);
        if matches!(done, Err(Error::Closed { .. } | Error::Hangs { .. })) {
            let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
            // Somebody else may have opened another since.
            if open.get(uri).is_some_and(|kept| Arc::ptr_eq(kept, &connection)) {
                open.remove(uri);
            }
        }
        done
    };
    match once() {
        Err(Error::Closed { .. }) => once(),
        done => done,
    }
}

fn get(uri: &str) -> Result<Arc<Connection>, Error> {
    // Who waits for the lock waits for one that is being opened, until its deadline at most.
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(connection) = open.get(uri) {
        return Ok(Arc::clone(connection));
    }
    let options = Options { uri: uri.to_string(), ..Options::default() };
    let connection = Arc::new(Connection::open(options)?);
    open.insert(uri.to_string(), Arc::clone(&connection));
    Ok(connection)
}
