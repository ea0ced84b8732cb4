//! Tables of text.

use std::fmt::Write;

/// Columns that stand below each other, all to the left, two spaces before each.
pub(crate) fn columns<const N: usize>(head: [&str; N], rows: &[[String; N]]) -> String {
    let width = |i: usize| {
        let cells = rows.iter().map(|row| row[i].chars().count());
        cells.chain([head[i].chars().count()]).max().unwrap_or_default()
    };
    let widths: [usize; N] = std::array::from_fn(width);
    let mut text = String::new();
    for row in std::iter::once(&head.map(String::from)).chain(rows) {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(widths) {
            let _ = write!(line, "  {cell:<width$}");
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_below_each_other() {
        let rows = [["é".to_string(), "b".to_string()], ["long".to_string(), String::new()]];
        assert_eq!(columns(["x", "y"], &rows), "  x     y\n  é     b\n  long\n");
    }
}
