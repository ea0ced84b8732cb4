//! The schedule around the longest wait: a lane per pCPU, which vCPU ran there, which one woke when,
//! and what the scheduler remarked.

use std::fmt::Write as _;

use lowtail_engine::{Duration, Time};
use lowtail_host::record::{Note, Record, What};
use lowtail_host::stats::Worst;

use super::svg::{Scale, cut, escape, px, tick};
use crate::figure::figure;
use crate::metric::TimeUnit;
use crate::outcome::CaseOutcome;

const WIDTH: f64 = 1000.0;
const LEFT: f64 = 76.0;
const RIGHT: f64 = 984.0;
const TOP: f64 = 48.0;
const LANE: f64 = 28.0;
const GAP: f64 = 34.0;
/// More lanes than this are left out, those of the wait excepted.
const LANES_MAX: usize = 8;

/// A stretch of time that a vCPU had a pCPU.
struct Run {
    pcpu: u16,
    vcpu: u16,
    from: Time,
    to: Time,
}

/// What all parts of a strip need to know.
struct Strip<'c> {
    case: &'c CaseOutcome,
    worst: &'c Worst,
    from: Time,
    to: Time,
    unit: TimeUnit,
    x: Scale,
}

/// The chart of one case, if it has a longest wait.
pub(super) fn chart(case: &CaseOutcome) -> String {
    let (Some(worst), Some(watched)) = (&case.worst, case.watched) else { return String::new() };
    let wait = worst.ran.since(worst.woke);
    let lead = wait.mul_div(6, 10).max(Duration::from_us(2));
    let from = Time::from_ps(worst.woke.as_ps().saturating_sub(lead.as_ps()));
    let to = worst.ran + wait.mul_div(8, 100).max(Duration::from_us(1));
    let unit = if wait >= Duration::from_ms(2) { TimeUnit::Ms } else { TimeUnit::Us };
    let ends = [from, to].map(|time| signed(time, worst.woke, unit));
    let x = Scale::linear(ends.into_iter(), LEFT, RIGHT);
    let strip = Strip { case, worst, from, to, unit, x };
    let lanes = lanes(worst);
    let bottom = TOP + lanes.len() as f64 * (LANE + GAP);
    let mut out = format!(
        "<figure><svg viewBox=\"0 0 {WIDTH} {}\" role=\"img\" aria-label=\"{}\">\n",
        bottom + 44.0,
        escape(&format!("Schedule around the longest wait of {}", strip.name(watched)))
    );
    strip.wait(&mut out, watched, bottom);
    let runs = runs(worst, from, to);
    for (i, &pcpu) in lanes.iter().enumerate() {
        let top = TOP + i as f64 * (LANE + GAP);
        let _ = writeln!(
            out,
            "<rect class=\"lane\" x=\"{LEFT}\" y=\"{top}\" width=\"{}\" height=\"{LANE}\" \
             opacity=\"0.6\"/><text class=\"dim\" x=\"{}\" y=\"{}\" \
             text-anchor=\"end\">pCPU {pcpu}</text>",
            RIGHT - LEFT,
            LEFT - 10.0,
            top + LANE / 2.0 + 4.0
        );
        runs.iter().filter(|run| run.pcpu == pcpu).for_each(|run| strip.bar(&mut out, run, top));
        strip.marks(&mut out, pcpu, top);
    }
    axis(&mut out, &strip.x, bottom, unit);
    let _ = writeln!(
        out,
        "</svg><figcaption>Case <b>{}</b>: {}. {}</figcaption></figure>",
        escape(&case.name),
        escape(&case.scheduler),
        escape(&remarks(worst, from))
    );
    out
}

fn signed(time: Time, origin: Time, unit: TimeUnit) -> f64 {
    if time >= origin { unit.of(time.since(origin)) } else { -unit.of(origin.since(time)) }
}

/// The pCPUs of the records, at most [`LANES_MAX`].
fn lanes(worst: &Worst) -> Vec<u16> {
    let mut lanes: Vec<u16> = Vec::new();
    // The last record is the one that ended the wait: its pCPU comes first.
    for record in worst.records.iter().rev() {
        if !lanes.contains(&record.pcpu.0) && lanes.len() < LANES_MAX {
            lanes.push(record.pcpu.0);
        }
    }
    lanes.sort_unstable();
    lanes
}

/// Who had which pCPU when. Whoever leaves a pCPU without having come has been there
/// since before the beginning.
fn runs(worst: &Worst, from: Time, to: Time) -> Vec<Run> {
    let mut runs = Vec::new();
    let mut open: Vec<Record> = Vec::new();
    let mut seen: Vec<u16> = Vec::new();
    for record in &worst.records {
        let (pcpu, vcpu) = (record.pcpu.0, record.vcpu.0);
        let here = open.iter().position(|run| run.pcpu == record.pcpu);
        match record.what {
            What::Run => {
                if let Some(i) = here {
                    open.swap_remove(i);
                }
                open.push(*record);
            }
            What::Block | What::Preempt => {
                let began = here.map(|i| open.swap_remove(i).time);
                let began = began.or_else(|| (!seen.contains(&pcpu)).then_some(from));
                if let Some(began) = began {
                    runs.push(Run { pcpu, vcpu, from: began.max(from), to: record.time });
                }
            }
            What::Wake | What::Note(_) => continue,
        }
        seen.push(pcpu);
    }
    let rest = open.into_iter();
    runs.extend(rest.map(|r| Run { pcpu: r.pcpu.0, vcpu: r.vcpu.0, from: r.time.max(from), to }));
    runs.retain(|run| run.to > run.from);
    runs
}

impl Strip<'_> {
    fn name(&self, vcpu: u16) -> &str {
        self.case.vcpus.get(usize::from(vcpu)).map_or("?", String::as_str)
    }

    /// The pixel of a moment, kept within the strip.
    fn at(&self, time: Time) -> f64 {
        self.x.at(signed(time.max(self.from).min(self.to), self.worst.woke, self.unit))
    }

    /// The shaded wait and its length.
    fn wait(&self, out: &mut String, watched: u16, bottom: f64) {
        let (left, right) = (self.at(self.worst.woke), self.at(self.worst.ran));
        let length = figure(self.unit.of(self.worst.ran.since(self.worst.woke)));
        let _ = writeln!(
            out,
            "<rect class=\"wait\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>\
             <text x=\"{}\" y=\"16\" text-anchor=\"middle\">{} waits {length} {}</text>",
            px(left),
            TOP - 24.0,
            px(right - left),
            bottom - TOP + 24.0,
            px(((left + right) / 2.0).clamp(LEFT + 90.0, RIGHT - 90.0)),
            escape(&cut(self.name(watched), 30)),
            self.unit.name()
        );
    }

    /// A run, with the vCPU's name if it fits.
    fn bar(&self, out: &mut String, run: &Run, top: f64) {
        let (left, right) = (self.at(run.from), self.at(run.to));
        let (width, name) = ((right - left).max(0.8), self.name(run.vcpu));
        let length = figure(self.unit.of(run.to.since(run.from)));
        let text = format!("{name}: {length} {}", self.unit.name());
        let _ = write!(
            out,
            "<rect class=\"fill c{}\" x=\"{}\" y=\"{top}\" width=\"{}\" height=\"{LANE}\">\
             <title>{}</title></rect>",
            run.vcpu % 8,
            px(left),
            px(width),
            escape(&text)
        );
        // A letter takes about seven pixels.
        let room = ((width - 8.0) / 7.0).max(0.0) as usize;
        if room >= 4 || room >= name.chars().count() {
            let _ = write!(
                out,
                "<text class=\"on\" x=\"{}\" y=\"{}\" pointer-events=\"none\">{}</text>",
                px(left + 5.0),
                top + LANE / 2.0 + 4.0,
                escape(&cut(name, room))
            );
        }
        out.push('\n');
    }

    /// Triangles for wake-ups below a lane, ticks for remarks, with their text where it fits.
    fn marks(&self, out: &mut String, pcpu: u16, top: f64) {
        let base = top + LANE;
        let mut free = LEFT;
        let span = self.from..=self.to;
        let records = self.worst.records.iter();
        for record in records.filter(|r| r.pcpu.0 == pcpu && span.contains(&r.time)) {
            let (x, name) = (self.at(record.time), self.name(record.vcpu.0));
            let (text, class, shape) = match record.what {
                What::Wake => {
                    let shape = format!("M{} {}l-5 8h10z", px(x), px(base + 1.0));
                    (format!("{name} wakes"), "fill", shape)
                }
                What::Note(note) => {
                    let shape = format!("M{} {}v9", px(x), px(base));
                    (format!("{name} {}", words(note)), "curve stroke", shape)
                }
                _ => continue,
            };
            let _ = write!(
                out,
                "<path class=\"{class} c{}\" d=\"{shape}\"><title>{}</title></path>",
                record.vcpu.0 % 8,
                escape(&text)
            );
            let width = text.chars().count() as f64 * 6.3 + 10.0;
            if x - 4.0 >= free && x + width < RIGHT {
                let _ = write!(
                    out,
                    "<text class=\"dim\" x=\"{}\" y=\"{}\">{}</text>",
                    px(x - 4.0),
                    px(base + 23.0),
                    escape(&text)
                );
                free = x + width + 6.0;
            }
            out.push('\n');
        }
    }
}

fn axis(out: &mut String, x: &Scale, bottom: f64, unit: TimeUnit) {
    let _ = write!(out, "<path class=\"axis\" fill=\"none\" d=\"M{LEFT} {bottom}H{RIGHT}\"/>");
    for value in x.ticks() {
        let at = px(x.at(value));
        let _ = writeln!(
            out,
            "<path class=\"axis\" d=\"M{at} {bottom}v5\"/>\
             <text class=\"dim\" x=\"{at}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            bottom + 18.0,
            tick(value)
        );
    }
    let _ = writeln!(
        out,
        "<text class=\"dim\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">{} since the wake-up</text>",
        (LEFT + RIGHT) / 2.0,
        bottom + 36.0,
        unit.name()
    );
}

/// How often the scheduler remarked what.
fn remarks(worst: &Worst, from: Time) -> String {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for record in worst.records.iter().filter(|record| record.time >= from) {
        let What::Note(note) = record.what else { continue };
        match counts.iter_mut().find(|(text, _)| *text == words(note)) {
            Some((_, count)) => *count += 1,
            None => counts.push((words(note), 1)),
        }
    }
    if counts.is_empty() {
        return String::new();
    }
    let list: Vec<String> = counts.iter().map(|(text, n)| format!("{text} ({n})")).collect();
    format!("The scheduler's remarks: {}.", list.join(", "))
}

fn words(note: Note) -> &'static str {
    match note {
        Note::RateLimited => "rate limited",
        Note::NotTickled => "not tickled",
        Note::Boosted => "boosted",
        Note::BoostEnded => "boost ended",
        Note::Parked => "parked by its cap",
        Note::CreditReset => "credits topped up",
        Note::Stolen => "moved here",
    }
}
