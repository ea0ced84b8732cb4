//! The screen of `lowtail host observe`: which VM hurts, in which queue, because of whom.

use std::collections::{HashMap, VecDeque};

use lowtail_kernel::Histogram;
use lowtail_observe::{Finding, Queue, Snapshot, ThreadSnapshot, VmSnapshot};
use ratatui::Frame;
use ratatui::crossterm::event::{Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Bar, BarChart, BarGroup, Block, Cell, Paragraph, Row, Table, TableState};

use super::uplinks::{self, Matrix, Wait};
use super::wording::{COLUMNS, cells, dark, role, sentence, us, wakes, who};

/// Intervals that a sparkline shows.
const HISTORY: usize = 30;
/// Bars of a histogram at most: one for each doubling.
const SPARKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// What the user wants next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// To look on.
    Stay,
    /// To leave.
    Quit,
}

/// What is shown, and what of it is chosen.
#[derive(Debug, Default)]
pub(crate) struct Screen {
    snapshot: Snapshot,
    findings: Vec<Finding>,
    /// Late wake-ups of each VM, p99 in microseconds, the newest last.
    late: HashMap<(u32, u64), VecDeque<f64>>,
    selected: usize,
    histogram: bool,
    /// The uplinks, instead of the chosen VM's threads.
    uplinks: bool,
    paused: bool,
    help: bool,
}

impl Screen {
    /// A new interval. While paused only the sparklines go on.
    pub(crate) fn update(&mut self, snapshot: &Snapshot, findings: &[Finding]) {
        for vm in &snapshot.vms {
            let line = self.late.entry((vm.pid, vm.started_ticks)).or_default();
            line.push_back(wakes(vm).percentile_us(0.99).unwrap_or(0.0));
            while line.len() > HISTORY {
                line.pop_front();
            }
        }
        let here =
            |key: &(u32, u64)| snapshot.vms.iter().any(|vm| (vm.pid, vm.started_ticks) == *key);
        self.late.retain(|key, _| here(key));
        if !self.paused {
            self.snapshot = snapshot.clone();
            self.findings = findings.to_vec();
            self.selected = self.selected.min(self.snapshot.vms.len().saturating_sub(1));
        }
    }

    /// A key, or anything else from the terminal.
    pub(crate) fn handle(&mut self, event: &Event) -> Next {
        let Event::Key(key) = event else { return Next::Stay };
        if key.kind != KeyEventKind::Press {
            return Next::Stay;
        }
        match key.code {
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => Next::Quit,
            KeyCode::Char('q') | KeyCode::Esc => Next::Quit,
            KeyCode::Char('h') => self.toggle(|screen| &mut screen.histogram),
            KeyCode::Char('u') => self.toggle(|screen| &mut screen.uplinks),
            KeyCode::Char('p') => self.toggle(|screen| &mut screen.paused),
            KeyCode::Char('?') => self.toggle(|screen| &mut screen.help),
            KeyCode::Down | KeyCode::Char('j') => self.select(self.selected + 1),
            KeyCode::Up | KeyCode::Char('k') => self.select(self.selected.saturating_sub(1)),
            _ => Next::Stay,
        }
    }

    fn toggle(&mut self, which: impl Fn(&mut Self) -> &mut bool) -> Next {
        let which = which(self);
        *which = !*which;
        Next::Stay
    }

    fn select(&mut self, at: usize) -> Next {
        self.selected = at.min(self.snapshot.vms.len().saturating_sub(1));
        Next::Stay
    }

    /// Draws it all.
    pub(crate) fn draw(&self, frame: &mut Frame<'_>) {
        let unknown = dark(&self.snapshot).count();
        let lines = match self.findings.len() {
            0 => 1 + unknown + self.snapshot.coverage_gaps.len(),
            told => unknown + told,
        };
        let troubles = lines.clamp(1, 8) as u16 + 2;
        let vms = self.snapshot.vms.len().min(1_000) as u16 + 3;
        let [head, what, table, below, foot] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(troubles),
            Constraint::Max(vms),
            Constraint::Min(4),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        frame.render_widget(self.head(), head);
        frame.render_widget(self.troubles(), what);
        let mut state = TableState::default().with_selected(Some(self.selected));
        frame.render_stateful_widget(self.vms(), table, &mut state);
        match self.snapshot.vms.get(self.selected) {
            _ if self.uplinks => self.uplinks(frame, below),
            Some(vm) if self.histogram => histogram(frame, vm, below),
            Some(vm) => frame.render_widget(threads(vm, self.snapshot.interval_ms), below),
            None => frame.render_widget(nobody(), below),
        }
        let keys = match self.help {
            true => {
                "wake-up: latency from wake-up to running · ready: waits for a CPU, of run and ready time · \
                 queueing: in the uplink's discipline · receive: in its tap · Mbit/s: sent through uplinks · round trip: beyond the uplink"
            }
            false => "q quit  ↑↓ VM  h histogram  u uplinks  p pause  ? what the columns mean",
        };
        frame.render_widget(Paragraph::new(keys).style(Style::new().dim()), foot);
    }

    fn head(&self) -> Paragraph<'_> {
        let mut line = vec![
            Span::from("lowtail host observe").bold(),
            Span::from(format!(
                "  {} VMs, each {:.1} s{}",
                self.snapshot.vms.len(),
                self.snapshot.interval_ms / 1e3,
                if self.paused { ", paused" } else { "" }
            )),
        ];
        let lost = &self.snapshot.lost;
        let all = lost.waits + lost.blame + lost.packets + lost.threads;
        if all > 0 {
            let text = format!(
                "  lost events: {} waits, {} of blame, {} packets, {} threads",
                lost.waits, lost.blame, lost.packets, lost.threads
            );
            line.push(Span::from(text).style(Style::new().fg(Color::Yellow)));
        }
        Paragraph::new(Line::from(line))
    }

    fn troubles(&self) -> Paragraph<'_> {
        let block = Block::bordered().title(" Findings ");
        if self.findings.is_empty() {
            let mut lines = vec![Line::from(match dark(&self.snapshot).next() {
                None if !self.snapshot.incomplete => {
                    "No findings: no VM waits for long in any of the three queues."
                }
                _ => "No findings among what lowtail sees.",
            })];
            lines.extend(dark(&self.snapshot).map(|line| Line::from(line).fg(Color::Yellow)));
            lines.extend(
                self.snapshot.coverage_gaps.iter().map(|why| Line::from(why.as_str()).dim()),
            );
            return Paragraph::new(lines).block(block);
        }
        let line = |finding: &Finding| {
            let style = match finding.queue {
                Queue::RunQueue => Style::new().fg(Color::Red),
                Queue::Host => Style::new().fg(Color::Magenta),
                Queue::Network => Style::new().fg(Color::Yellow),
            };
            Line::from(sentence(finding)).style(style)
        };
        // What is not known stands first: there may be no room for all.
        let dark = dark(&self.snapshot).map(|line| Line::from(line).fg(Color::Yellow));
        Paragraph::new(dark.chain(self.findings.iter().map(line)).collect::<Vec<_>>()).block(block)
    }

    fn vms(&self) -> Table<'_> {
        let mut titles = COLUMNS.to_vec();
        titles.insert(SPARKS_AT, "last half minute");
        let widths = titles.iter().enumerate().map(|(i, title)| match i {
            0 => Constraint::Min(12),
            // On a narrow screen the picture of the past gives way to figures.
            SPARKS_AT => Constraint::Fill(1),
            _ => Constraint::Length((title.len() as u16).max(7)),
        });
        let rows = self.snapshot.vms.iter().map(|vm| self.vm(vm));
        Table::new(rows, widths)
            .header(Row::new(titles.clone()).style(Style::new().bold()))
            .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED))
            .block(Block::bordered().title(" VMs "))
    }

    fn vm(&self, vm: &VmSnapshot) -> Row<'_> {
        let mut cells = cells(vm, self.snapshot.interval_ms);
        let line = self.late.get(&(vm.pid, vm.started_ticks));
        cells.insert(SPARKS_AT, line.map(sparkline).unwrap_or_default());
        let troubled = self.findings.iter().any(|finding| finding.pid == vm.pid);
        let style = if troubled { Style::new().fg(Color::Red) } else { Style::new() };
        Row::new(cells.into_iter().map(Cell::from)).style(style)
    }
}

impl Screen {
    /// Whose packets wait for whose, and what each sends.
    fn uplinks(&self, frame: &mut Frame<'_>, area: Rect) {
        let uplinks = uplinks::matrix(&self.snapshot, Wait::Uplink);
        let taps = uplinks::matrix(&self.snapshot, Wait::Tap);
        let lines = |matrix: &Matrix| matrix.rows.len().clamp(1, 1_000) as u16 + 3;
        // Where nothing has waited in a tap, the uplinks have the room.
        let taps_lines = if taps.rows.is_empty() { 0 } else { lines(&taps) };
        let [above, between, below] = Layout::vertical([
            Constraint::Max(lines(&uplinks)),
            Constraint::Max(taps_lines),
            Constraint::Min(3),
        ])
        .areas(area);
        let title = |wait: Wait| format!(" {} ", wait.title());
        if uplinks.rows.is_empty() {
            let unseen = self.snapshot.coverage_gaps.iter().find(|gap| gap.starts_with("packets"));
            let none = unseen.map_or("No packet of a VM waited for others.", |gap| gap.as_str());
            let block = Block::bordered().title(title(Wait::Uplink));
            frame.render_widget(Paragraph::new(none).block(block), above);
        } else {
            frame.render_widget(table(&uplinks, title(Wait::Uplink)), above);
        }
        if !taps.rows.is_empty() {
            frame.render_widget(table(&taps, title(Wait::Tap)), between);
        }
        let widths = [
            Constraint::Length(16),
            Constraint::Min(20),
            Constraint::Length(9),
            Constraint::Length(6),
        ];
        let rates = uplinks::rates(&self.snapshot);
        let rates = Table::new(rates.into_iter().map(Row::new), widths)
            .header(Row::new(uplinks::RATES).style(Style::new().bold()))
            .block(Block::bordered().title(" Uplinks "));
        frame.render_widget(rates, below);
    }
}

/// A matrix, in which who fills a queue is seen at once.
fn table(matrix: &Matrix, title: String) -> Table<'_> {
    let rows = matrix.rows.iter().map(|(cells, parts)| {
        let cells = cells.iter().enumerate().map(|(i, text)| {
            let part = i.checked_sub(Matrix::LEADING).and_then(|i| parts.get(i));
            let style = part.map_or_else(Style::new, |part| heat(*part));
            Cell::from(text.as_str()).style(style)
        });
        Row::new(cells)
    });
    let widths = matrix.titles.iter().enumerate().map(|(i, title)| match i {
        0 => Constraint::Min(12),
        _ => Constraint::Length((title.chars().count() as u16).clamp(7, 20)),
    });
    Table::new(rows, widths)
        .header(Row::new(matrix.titles.iter().map(String::as_str)).style(Style::new().bold()))
        .block(Block::bordered().title(title))
}

/// The more it is, the more it shows.
fn heat(part: f64) -> Style {
    match part {
        0.5.. => Style::new().fg(Color::Black).bg(Color::Red),
        0.2.. => Style::new().fg(Color::Black).bg(Color::Yellow),
        0.05.. => Style::new().fg(Color::Yellow),
        _ => Style::new(),
    }
}

/// Where the sparkline stands among them.
const SPARKS_AT: usize = 6;

/// The threads of a VM, and for whom they waited.
fn threads(vm: &VmSnapshot, interval_ms: f64) -> Table<'_> {
    let titles =
        ["thread", "name", "CPU %", "wake-ups", "p50", "p99 us", "preemptions", "p99 us", "blame"];
    let widths = [
        Constraint::Length(12),
        Constraint::Length(16),
        Constraint::Length(6),
        Constraint::Length(8),
        Constraint::Length(9),
        Constraint::Length(9),
        Constraint::Length(11),
        Constraint::Length(9),
        Constraint::Min(20),
    ];
    let row = |thread: &ThreadSnapshot| {
        let total: u64 = thread.blame.iter().map(|blame| blame.ready_ns).sum();
        let blame = thread.blame.iter().take(4).map(|blame| {
            let share = 100.0 * blame.ready_ns as f64 / total.max(1) as f64;
            format!("{} {share:.0} %", who(&blame.runner))
        });
        Row::new([
            role(thread.role),
            thread.comm.to_string(),
            format!("{:.1}", thread.run_time_ns as f64 / interval_ms.max(1.0) / 1e4),
            thread.wakeup_latency.count().to_string(),
            us(thread.wakeup_latency.percentile_us(0.5)),
            us(thread.wakeup_latency.percentile_us(0.99)),
            thread.preemption_latency.count().to_string(),
            us(thread.preemption_latency.percentile_us(0.99)),
            blame.collect::<Vec<_>>().join(", "),
        ])
    };
    Table::new(vm.threads.iter().map(row), widths)
        .header(Row::new(titles).style(Style::new().bold()))
        .block(Block::bordered().title(format!(" {}: its threads{} ", vm.name, missing(vm))))
}

/// How many threads of a VM are not among them.
fn missing(vm: &VmSnapshot) -> String {
    match vm.unseen_threads.all() {
        0 => String::new(),
        all => format!(", {all} not tracked"),
    }
}

/// How long the vCPUs of a VM waited after being woken: a bar for each doubling.
fn histogram(frame: &mut Frame<'_>, vm: &VmSnapshot, area: Rect) {
    let wakes = wakes(vm);
    // From 1 us on; what is shorter is in the first.
    let mut bars: Vec<u64> = Vec::new();
    for (bucket, &count) in wakes.buckets().iter().enumerate() {
        let (least, _) = Histogram::bounds_ns(bucket);
        let at = (least.max(1) / 1_000).checked_ilog2().map_or(0, |e| e as usize + 1);
        if bars.len() <= at {
            bars.resize(at + 1, 0);
        }
        bars[at] += u64::from(count);
    }
    let last = bars.iter().rposition(|&count| count > 0).map_or(0, |last| last + 1);
    bars.truncate(last.max(1));
    let label = |at: usize| match at {
        0 => "<1us".to_string(),
        1..=10 => format!("{}us", 1u64 << (at - 1)),
        11..=20 => format!("{}ms", 1u64 << (at - 11)),
        _ => format!("{}s", 1u64 << (at - 21)),
    };
    let bars: Vec<Bar<'_>> = bars
        .iter()
        .enumerate()
        .map(|(at, &count)| Bar::default().value(count).label(label(at)))
        .collect();
    let chart =
        BarChart::default().data(BarGroup::default().bars(&bars)).bar_width(6).bar_gap(1).block(
            Block::bordered()
                .title(format!(" {}: wake-ups by latency (lower bound of each bar) ", vm.name)),
        );
    frame.render_widget(chart, area);
}

fn nobody() -> Paragraph<'static> {
    Paragraph::new(
        "No VMs found. `lowtail host vms` says how lowtail finds them; --vm declares others.",
    )
}

/// The last intervals as bars, on a logarithmic scale from 10 us to 100 ms: what matters is the order of magnitude.
fn sparkline(line: &VecDeque<f64>) -> String {
    let spark = |us: &f64| {
        let at = ((us.max(10.0) / 10.0).log10() * 2.0) as usize;
        SPARKS[at.min(SPARKS.len() - 1)]
    };
    line.iter().map(spark).collect()
}

#[cfg(test)]
mod tests {
    use lowtail_observe::{Diagnosis, Unseen};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::crossterm::event::KeyEvent;

    use super::*;
    use crate::host::example::snapshot;

    fn shown(screen: &Screen) -> String {
        let mut terminal = Terminal::new(TestBackend::new(170, 30)).unwrap();
        terminal.draw(|frame| screen.draw(frame)).unwrap();
        terminal.backend().to_string()
    }

    fn press(screen: &mut Screen, key: KeyCode) -> Next {
        screen.handle(&Event::Key(KeyEvent::new(key, KeyModifiers::NONE)))
    }

    #[test]
    fn it_says_who_hurts_because_of_whom_and_names_stay_data() {
        let (snapshot, mut screen) = (snapshot(), Screen::default());
        let findings = Diagnosis::default().update(&snapshot);
        screen.update(&snapshot, &findings);
        let text = shown(&screen);
        // 4 ms are in the bucket from 3.932 to 4.063.
        for part in [
            "web\\u{1b}[2J: wake-up latency p99 4.00 ms (limit 1.00 ms); cause: batch ran on its CPU 100 % of the wait; for 1 s",
            "2 VMs",
            "round trip p50",
        ] {
            assert!(text.contains(part), "`{part}` is not in:\n{text}");
        }
        assert!(!text.contains('\x1b'));
    }

    #[test]
    fn where_vcpus_are_not_seen_nothing_is_called_well() {
        let (mut snapshot, mut screen) = (snapshot(), Screen::default());
        screen.update(&snapshot, &[]);
        assert!(shown(&screen).contains("No findings: no VM waits"));
        snapshot.vms[0].unseen_threads = Unseen { vcpus: 3, workers: 7, ..Unseen::default() };
        screen.update(&snapshot, &[]);
        let text = shown(&screen);
        assert!(!text.contains("No findings: no VM waits"), "{text}");
        for part in ["batch: unknown; 3 of 4 vCPUs", "1 of 4", "10 not tracked"] {
            assert!(text.contains(part), "`{part}` is not in:\n{text}");
        }
    }

    #[test]
    fn keys() {
        let (snapshot, mut screen) = (snapshot(), Screen::default());
        screen.update(&snapshot, &[]);
        assert!(shown(&screen).contains("batch: its threads"));
        assert_eq!(press(&mut screen, KeyCode::Down), Next::Stay);
        assert_eq!(press(&mut screen, KeyCode::Down), Next::Stay);
        assert!(shown(&screen).contains("[2J: its threads"));
        press(&mut screen, KeyCode::Char('h'));
        let text = shown(&screen);
        // Half of the wake-ups were some 3 us late, half 4 ms: the bars of 2 us and of 2 ms, which
        // begins at 2.048 ms.
        assert!(text.contains("2us") && text.contains("2ms") && text.contains("100"), "{text}");
        press(&mut screen, KeyCode::Char('p'));
        screen.update(&Snapshot::default(), &[]);
        assert!(shown(&screen).contains("2 VMs, each 1.0 s, paused"));
        assert_eq!(press(&mut screen, KeyCode::Char('q')), Next::Quit);
    }

    #[test]
    fn whose_bytes_are_ahead_of_whose() {
        let (snapshot, mut screen) = (snapshot(), Screen::default());
        screen.update(&snapshot, &[]);
        press(&mut screen, KeyCode::Char('u'));
        let text = shown(&screen);
        for part in ["batch %", "cgroup backup", "90.0", "eth0", "7.20"] {
            assert!(text.contains(part), "`{part}` is not in:\n{text}");
        }
        screen.update(&Snapshot::default(), &[]);
        assert!(shown(&screen).contains("No packet of a VM waited"));
    }

    #[test]
    fn an_empty_host_and_a_small_terminal() {
        let screen = Screen::default();
        assert!(shown(&screen).contains("No VMs found"));
        for (width, height) in [(1, 1), (20, 5), (80, 24)] {
            let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
            let mut screen = Screen::default();
            screen.update(&snapshot(), &[]);
            terminal.draw(|frame| screen.draw(frame)).unwrap();
            screen.histogram = true;
            terminal.draw(|frame| screen.draw(frame)).unwrap();
            screen.uplinks = true;
            terminal.draw(|frame| screen.draw(frame)).unwrap();
        }
    }
}
