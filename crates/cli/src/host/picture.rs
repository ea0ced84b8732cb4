//! `lowtail host observe --svg`: the screen as a picture, for a report or a ticket.

use std::fmt::Write as _;
use std::path::Path;

use lowtail_out::{Access, Output};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};

use super::screen::Screen;
use crate::exit::Fail;

/// Columns and lines of the terminal that is drawn.
const SIZE: (u16, u16) = (168, 22);
/// A cell, in pixels: that of a monospaced font of 14 px. Lines of boxes meet at this height.
const CELL: (f64, f64) = (8.4, 16.3);
/// Around the text, in pixels.
const MARGIN: f64 = 10.0;
/// Text and ground of a dark terminal: the picture has its own ground, so that it is readable on any page.
const TEXT: &str = "#d8dee9";
const GROUND: &str = "#20242c";

/// Whether a picture can be written into `path`.
pub(super) fn check(path: &Path) -> Result<(), Fail> {
    let place = Output::create(path, Access::Usual);
    place.map(drop).map_err(|error| failed(path, &error))
}

fn failed(path: &Path, error: &dyn std::fmt::Display) -> Fail {
    Fail::Host(format!("--svg {}: {error}", lowtail_out::path(path)))
}

/// Writes what `screen` shows into `path`.
pub(super) fn write(screen: &Screen, path: &Path) -> Result<(), Fail> {
    let host = |error: &dyn std::fmt::Display| failed(path, error);
    let mut terminal = Terminal::new(TestBackend::new(SIZE.0, SIZE.1)).map_err(|e| host(&e))?;
    terminal.draw(|frame| screen.draw(frame)).map_err(|e| host(&e))?;
    let mut file = Output::create(path, Access::Usual).map_err(|e| host(&e))?;
    let text = svg(terminal.backend().buffer());
    std::io::Write::write_all(&mut file, text.as_bytes()).map_err(|e| host(&e))?;
    file.commit().map_err(|e| host(&e))
}

/// What a terminal shows, as SVG: a line of text for each run of cells that look the same.
fn svg(buffer: &Buffer) -> String {
    let (columns, lines) = (buffer.area.width, buffer.area.height);
    let width = f64::from(columns) * CELL.0 + 2.0 * MARGIN;
    let height = f64::from(lines) * CELL.1 + 2.0 * MARGIN;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.1} {height:.1}\" \
         font-family=\"ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace\" font-size=\"14\">\n\
         <title>lowtail host observe</title>\n\
         <rect width=\"100%\" height=\"100%\" rx=\"6\" fill=\"{GROUND}\"/>\n"
    );
    for y in 0..lines {
        let mut x = 0;
        while x < columns {
            let look = Look::of(&buffer[(x, y)]);
            let end = (x..columns).find(|&x| Look::of(&buffer[(x, y)]) != look).unwrap_or(columns);
            let text: String = (x..end).map(|x| buffer[(x, y)].symbol()).collect();
            look.draw(&mut out, (x, y), end - x, &text);
            x = end;
        }
    }
    out += "</svg>\n";
    out
}

/// How a cell looks.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Look {
    color: &'static str,
    bold: bool,
    dim: bool,
    reversed: bool,
}

impl Look {
    fn of(cell: &Cell) -> Self {
        let has = |modifier| cell.modifier.contains(modifier);
        Look {
            color: match cell.fg {
                Color::Red => "#ff7b7b",
                Color::Magenta => "#d7a0ff",
                Color::Yellow => "#ffd479",
                Color::Green => "#8ee08e",
                _ => TEXT,
            },
            bold: has(Modifier::BOLD),
            dim: has(Modifier::DIM),
            reversed: has(Modifier::REVERSED),
        }
    }

    fn draw(self, out: &mut String, (x, y): (u16, u16), cells: u16, text: &str) {
        let (left, width) = (MARGIN + f64::from(x) * CELL.0, f64::from(cells) * CELL.0);
        let top = MARGIN + f64::from(y) * CELL.1;
        let (text_color, ground) =
            if self.reversed { (GROUND, Some(TEXT)) } else { (self.color, None) };
        if let Some(ground) = ground {
            let _ = writeln!(
                out,
                "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{:.1}\" fill=\"{ground}\"/>",
                CELL.1
            );
        }
        if text.trim().is_empty() {
            return;
        }
        let weight = if self.bold { " font-weight=\"bold\"" } else { "" };
        let opacity = if self.dim { " opacity=\"0.65\"" } else { "" };
        let base = top + 13.0;
        let _ = writeln!(
            out,
            "<text x=\"{left:.1}\" y=\"{base:.1}\" textLength=\"{width:.1}\" xml:space=\"preserve\" \
             fill=\"{text_color}\"{weight}{opacity}>{}</text>",
            escaped(text)
        );
    }
}

/// Text as XML has it.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use lowtail_kernel::Name;
    use lowtail_observe::Diagnosis;

    use super::*;
    use crate::host::example::snapshot;

    /// A name that a guest has chosen is text, and nothing that a browser would do.
    #[test]
    fn the_screen_is_drawn_and_names_stay_data() {
        let mut snapshot = snapshot();
        snapshot.vms[1].name = Name::new("<script>&");
        let mut screen = Screen::default();
        screen.update(&snapshot, &Diagnosis::default().update(&snapshot));
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("screen.svg");
        write(&screen, &path).expect("it is written");
        let text = std::fs::read_to_string(&path).expect("text");
        assert!(text.contains("&lt;script&gt;&amp;: wake-up latency p99 4.00 ms"), "{text}");
        assert!(!text.contains("<script"));
        assert_eq!(text.matches("<text").count(), text.matches("</text>").count());
        assert!(write(&screen, &dir.path().join("no/where.svg")).is_err());
    }
}
