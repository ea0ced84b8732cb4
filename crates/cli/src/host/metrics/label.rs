//! Names as labels of series.

use lowtail_kernel::Name;

/// Characters of a name.
const NAME_MAX: usize = 64;

/// A name as a terminal can show it, and not longer than anybody reads.
pub(super) fn shown(name: &Name) -> String {
    let given = name.as_given();
    let Some((end, _)) = given.char_indices().nth(NAME_MAX) else { return cut(name.to_string()) };
    cut(format!("{}…", Name::new(&given[..end])))
}

fn cut(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(NAME_MAX) {
        text.truncate(end);
        text.push('…');
    }
    text
}
