//! The search: random hosts, and the worst that they show.

use super::finding::Finding;
use super::measure::Measure;
use super::options::AttackOptions;
use super::random_host::RandomHost;
use super::random_uplink::{QUEUES, RandomUplink};
use super::report::Attacks;
use crate::error::Error;
use crate::pool::{self, Progress};
use crate::scheduler::{HYPERVISORS, named};

/// The schedulers called `wanted`, or of that kind; all of Xen's and ours if `wanted` is none.
fn choose(wanted: Option<&str>) -> Result<Vec<(&'static str, &'static str)>, Error> {
    wanted.map_or_else(|| Ok(HYPERVISORS.to_vec()), |wanted| named(wanted, HYPERVISORS))
}

/// Searches; what it finds follows from scheduler, seed and budget alone. `progress` is called
/// on the calling thread, once before the first run and after each.
///
/// # Errors
/// If there is no such scheduler, or a check inside the simulator failed.
pub fn attack(options: &AttackOptions, progress: &dyn Fn(Progress)) -> Result<Attacks, Error> {
    let queues = match options.queue.as_deref() {
        None => Vec::new(),
        Some("all") => QUEUES.to_vec(),
        Some(wanted) => named(wanted, QUEUES)?,
    };
    let schedulers = choose(options.scheduler.as_deref())?;
    let command = options.command();
    let seed = options.seed;
    let piece = |run: usize| match &queues[..] {
        [] => RandomHost::random(seed, run as u32, &schedulers, &command).judge(),
        queues => RandomUplink::random(seed, run as u32, queues, &command).judge(),
    };
    let results = pool::run(options.budget as usize, options.jobs, progress, piece);
    let results = results.map_err(|(run, message)| {
        let (experiment, case) = ("lab attack".to_string(), format!("run {run}"));
        Error::Simulator { experiment, case, seed, message }
    })?;
    let found: Vec<Finding> = results.into_iter().flatten().collect();
    let worst = Measure::ALL.into_iter().filter_map(|measure| {
        let of = found.iter().filter(|finding| finding.measure == measure);
        // The first of equals.
        of.reduce(|worst, other| if other.ratio() > worst.ratio() { other } else { worst })
    });
    let worst = worst.cloned().collect();
    Ok(Attacks { options: options.clone(), command, worst })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedulers_by_name_and_by_kind() {
        let names = |wanted| -> Vec<&str> {
            choose(Some(wanted)).unwrap().into_iter().map(|(name, _)| name).collect()
        };
        assert_eq!(names("credit"), ["credit-2007", "credit-4.8", "credit-today"]);
        assert_eq!(names("credit2-4.10"), ["credit2-4.10"]);
        assert_eq!(choose(None).unwrap().len(), HYPERVISORS.len());
        let error = choose(Some("credit2-4.12")).unwrap_err().to_string();
        assert!(error.contains("did you mean `credit2-4.10`?"), "{error}");
    }

    #[test]
    fn the_same_for_any_number_of_threads() {
        let attacks = |jobs| {
            let scheduler = Some("credit2-4.21".to_string());
            let options = AttackOptions { scheduler, queue: None, seed: 3, budget: 3, jobs };
            attack(&options, &|_| ()).unwrap().json()
        };
        assert_eq!(attacks(1), attacks(2));
    }
}
