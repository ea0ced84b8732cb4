//! Independent pieces of work on several threads, with their results in order.

/// What `work` gives for each of `items`, in their order, on so many threads.
///
/// # Panics
/// If `work` does, with its words.
pub(crate) fn map<T: Sync, R: Send>(
    items: &[T],
    threads: usize,
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let results = lowtail_lab::run_pieces(items.len(), threads, &|_| {}, |at| work(&items[at]));
    results.unwrap_or_else(|(_, words)| panic!("{words}"))
}
