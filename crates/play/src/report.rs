//! The report of a check: the figures of all scenarios, and what repeats them.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use lowtail_config_text::FileError;
use lowtail_engine::Duration;
use serde::{Deserialize, Serialize};

use crate::figure::Figure;
use crate::tally::Tally;

/// How often each scenario is played if nobody says otherwise, ...
pub const STARTS: u16 = 3;
/// ... and for how many seconds each time.
pub const SECONDS: u16 = 2;
/// Largest report: ten times one of a thousand scenarios.
const FILE_BYTES_MAX: usize = 16 << 20;

/// What scenarios are drawn from, and how they are played.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Where, as `--on` has it.
    pub on: String,
    /// Seed of all random choices.
    pub seed: u64,
    /// How often each is played.
    pub starts: u16,
    /// How often at most, where figures depend on the starts; as often as all others if nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starts_max: Option<u16>,
    /// For how many seconds each time.
    #[serde(rename = "measured_seconds")]
    pub seconds: u16,
    /// Whether the host's clock was said to count instructions.
    pub exact_clock: bool,
    /// Whether the kernel was checked by itself, in place of the simulator.
    pub twice: bool,
    /// Whether it was networks.
    #[serde(default)]
    pub networks: bool,
    /// Whether small-first scheduled, in place of the kernel's own scheduler.
    #[serde(default)]
    pub small_first: bool,
}

impl Settings {
    /// The command that checks `which` scenarios.
    pub fn command(&self, which: &str) -> String {
        let mut words = format!("lowtail lab check --on {} --seed {} {which}", self.on, self.seed);
        if self.starts != STARTS {
            words += &format!(" --starts {}", self.starts);
        }
        if let Some(most) = self.starts_max {
            words += &format!(" --starts-max {most}");
        }
        if self.seconds != SECONDS {
            words += &format!(" --seconds {}", self.seconds);
        }
        for (given, option) in [
            (self.networks, " --networks"),
            (self.small_first, " --small-first"),
            (self.exact_clock, " --exact-clock"),
            (self.twice, " --twice"),
        ] {
            words += if given { option } else { "" };
        }
        words
    }

    /// The command that checks scenario number `scenario` again.
    pub fn only(&self, scenario: u32) -> String {
        self.command(&format!("--only {scenario}"))
    }
}

/// What one scenario showed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Checked {
    /// Its number.
    pub scenario: u32,
    /// How often it was played. Reports of earlier versions and of networks do not say it: as often as all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starts: Option<u16>,
    /// What both measured.
    pub figures: Vec<Figure>,
}

/// What all scenarios of a check have shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// What repeats it.
    #[serde(flatten)]
    pub settings: Settings,
    /// pCPUs of each scenario.
    #[serde(default = "one")]
    pub pcpus: u16,
    /// What the kernel or Xen calls itself.
    pub kernel: String,
    /// Version of lowtail.
    pub version: String,
    /// How long it took.
    pub elapsed_seconds: f64,
    /// The scenarios, by their numbers.
    pub scenarios: Vec<Checked>,
    /// Scenarios that could not be played, as the machine that was booted for them did not come to its end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_played: Vec<NotPlayed>,
    /// Scenarios that were played a second time, as a guest hung or ended the first time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub played_again: Vec<NotPlayed>,
    /// What each machine measured before its first scenario, for the simulator. Reports of earlier versions do not say it, nor do those
    /// of networks, which measure it for each scenario.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calibrated: Vec<Calibrated>,
}

/// What things cost on a machine under one scheduler, as it has measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Calibrated {
    /// The first scenario that it played with that.
    pub first: u32,
    /// The scheduler, as scenarios call it; none for threads of Linux in the kernel's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<String>,
    /// Each cost by its name, in microseconds.
    pub costs_us: BTreeMap<String, f64>,
    /// After how many percent of its replies a guest of Xen is told that they have left, if that was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tx_completion_percent: Option<u8>,
}

impl Calibrated {
    /// That `costs` hold from scenario number `first` on.
    pub fn new(
        first: u32,
        scheduler: Option<&str>,
        costs: impl Iterator<Item = (&'static str, Duration)>,
    ) -> Self {
        let cost_us = |(name, cost): (&str, Duration)| (name.to_string(), cost.as_us_f64());
        let costs_us = costs.map(cost_us).collect();
        let scheduler = scheduler.map(str::to_string);
        Calibrated { first, scheduler, costs_us, tx_completion_percent: None }
    }
}

/// Scenarios in a row that could not be played.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotPlayed {
    /// The first one.
    pub first: u32,
    /// How many.
    pub scenarios: u32,
    /// Why, in words.
    pub why: String,
}

impl NotPlayed {
    /// Scenario `number`.
    pub fn one(number: u32, why: String) -> Self {
        NotPlayed { first: number, scenarios: 1, why }
    }
}

impl fmt::Display for NotPlayed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NotPlayed { first, scenarios, why } = self;
        match scenarios {
            0 | 1 => write!(f, "{first}: {why}"),
            n => write!(f, "{first} to {}: {why}", first + n - 1),
        }
    }
}

/// Reports of earlier versions do not say it.
fn one() -> u16 {
    1
}

impl Report {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// If it cannot be read, or is no report: the file and what is wrong.
    pub fn read(path: &Path) -> Result<Self, FileError> {
        let text = lowtail_config_text::read(path, FILE_BYTES_MAX, "report")?;
        let file = path.display().to_string();
        Self::parse(&text).map_err(|error| FileError::new(&file, error))
    }

    /// Reads `text`; what is wrong with it, if it is no report.
    ///
    /// # Errors
    /// In words.
    pub fn parse(text: &str) -> Result<Self, String> {
        let report: Report = serde_json::from_str(text)
            .map_err(|error| format!("no report of `lowtail lab check --json`: {error}"))?;
        report.check()?;
        Ok(report)
    }

    /// What no check can have found.
    fn check(&self) -> Result<(), String> {
        if version(&self.kernel).is_none() {
            return Err(format!("kernel `{}`: that is no version", self.kernel));
        }
        if self.scenarios.is_empty() {
            return Err("there are no scenarios".to_string());
        }
        for pair in self.scenarios.windows(2) {
            if pair[0].scenario >= pair[1].scenario {
                let (a, b) = (pair[0].scenario, pair[1].scenario);
                return Err(format!("scenario {b} after {a}: each is there once, in order"));
            }
        }
        for (scenario, figure) in self.figures() {
            if figure.simulated < 0.0 || figure.kernel < 0.0 {
                let (of, kind) = (&figure.of, figure.figure.in_tables().0);
                return Err(format!("scenario {scenario}, {of}, {kind}: less than nothing"));
            }
        }
        Ok(())
    }

    /// The command that makes it again.
    pub fn command(&self) -> String {
        let played = self.scenarios.iter().map(|checked| (checked.scenario, 1));
        let others = self.not_played.iter().map(|not| (not.first, not.scenarios));
        let all = || played.clone().chain(others.clone());
        let first = all().map(|(first, _)| first).min().unwrap_or(0);
        let n: u32 = all().map(|(_, n)| n).sum();
        let mut which = format!("--scenarios {n}");
        if first > 0 {
            which += &format!(" --first {first}");
        }
        self.settings.command(&which)
    }

    /// How many CPUs each scenario has, in words.
    pub fn pcpus_in_words(&self) -> String {
        if self.pcpus == 1 { "one CPU".to_string() } else { format!("{} CPUs", self.pcpus) }
    }

    /// How often scenarios were played and for how long each time, in words.
    pub fn starts_in_words(&self) -> String {
        // Networks take the time of their scenarios.
        let each = match self.settings.networks {
            true => String::new(),
            false => format!(" of {} s each", self.settings.seconds),
        };
        let all = self.scenarios.iter().map(|of| of.starts.unwrap_or(self.settings.starts));
        let (low, high) = (all.clone().min().unwrap_or(0), all.clone().max().unwrap_or(0));
        if low == high {
            return format!("{low} start{}{each}", if low == 1 { "" } else { "s" });
        }
        let mean = all.map(f64::from).sum::<f64>() / self.scenarios.len() as f64;
        format!("{low} to {high} starts ({mean:.1} on average){each}")
    }

    /// All figures, each with the number of its scenario.
    pub fn figures(&self) -> impl Iterator<Item = (u32, &Figure)> + Clone {
        let all = self.scenarios.iter();
        all.flat_map(|checked| checked.figures.iter().map(|figure| (checked.scenario, figure)))
    }

    /// The same, the worst first.
    pub fn worst(&self) -> Vec<(u32, &Figure)> {
        let mut all: Vec<_> = self.figures().collect();
        all.sort_by(|a, b| b.1.badness().total_cmp(&a.1.badness()));
        all
    }

    /// How many figures of each kind are how near.
    pub fn tallies(&self) -> Vec<Tally> {
        Tally::all(self.figures().map(|(_, figure)| figure))
    }

    /// As JSON without spaces, a line for each scenario and for the costs of each machine: short, and what has changed shows.
    ///
    /// # Errors
    /// serde's.
    pub fn lines(&self) -> Result<String, serde_json::Error> {
        let text = serde_json::to_string(self)?;
        // Within a string the quotes would have backslashes.
        let lines = ["{\"scenario\":", "\"calibrated\":", "{\"first\":"]
            .iter()
            .fold(text, |text, start| text.replace(start, &format!("\n{start}")));
        Ok(lines + "\n")
    }
}

pub use lowtail_kernel::release::version;

#[cfg(test)]
mod tests {
    use super::*;

    /// The command plays those again that could not be played.
    #[test]
    fn the_command_of_a_report_with_a_gap() {
        let settings = Settings {
            on: "xen=4.20".into(),
            seed: 7,
            starts: STARTS,
            starts_max: None,
            seconds: SECONDS,
            exact_clock: false,
            twice: false,
            networks: false,
            small_first: false,
        };
        let checked = |scenario| Checked { scenario, starts: None, figures: Vec::new() };
        let why = "Xen 4.20: ended with 125".to_string();
        let report = Report {
            settings,
            pcpus: 1,
            kernel: "4.20".into(),
            version: "0".into(),
            elapsed_seconds: 1.0,
            scenarios: vec![checked(8), checked(9)],
            not_played: vec![NotPlayed { first: 5, scenarios: 3, why }],
            played_again: vec![NotPlayed::one(8, "a guest ended".into())],
            calibrated: vec![Calibrated::new(
                8,
                Some("credit2"),
                [("schedule", Duration::from_ns(1_500))].into_iter(),
            )],
        };
        assert_eq!(
            report.command(),
            "lowtail lab check --on xen=4.20 --seed 7 --scenarios 5 --first 5"
        );
        assert_eq!(report.not_played[0].to_string(), "5 to 7: Xen 4.20: ended with 125");
        assert_eq!(report.played_again[0].to_string(), "8: a guest ended");
        assert_eq!(report.calibrated[0].costs_us["schedule"], 1.5);
        assert_eq!(report.starts_in_words(), "3 starts of 2 s each");
        let mut more = report.clone();
        more.scenarios[1].starts = Some(12);
        more.settings.networks = true;
        assert_eq!(more.starts_in_words(), "3 to 12 starts (7.5 on average)");
        let text = report.lines().expect("JSON");
        assert_eq!(Report::parse(&text), Ok(report));
    }
}
