//! Aligned columns of text.

use std::fmt::Write as _;

/// Puts `rows` below each other, two spaces apart. `columns` has a letter for each: `l` is flush left, all others are right.
pub fn align(out: &mut String, columns: &str, rows: &[Vec<String>]) {
    let width =
        |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    for row in rows {
        let mut line = String::from(" ");
        for ((cell, &width), column) in row.iter().zip(&widths).zip(columns.chars()) {
            let _ = if column == 'l' {
                write!(line, " {cell:<width$} ")
            } else {
                write!(line, " {cell:>width$} ")
            };
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
}
