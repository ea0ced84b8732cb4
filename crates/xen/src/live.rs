//! Single values of a Xen host, read and written with `xl`: who changes a host reads them, writes one, and reads it again.
//!
//! Many are read at once, and then [`Survey`] has them all with a few runs of `xl`. It is kept for a moment, and forgotten with the first
//! write; after a write only what is asked for is read. What is gone is `None`, and never written to.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::affinity::{self, Affinity};
use crate::error::Error;
use crate::identity::{self, DomainKey};
use crate::scheduler::{self, Scheduler, SchedulerParameters};
use crate::shares::{self, Shares};
use crate::survey::Survey;
use crate::xl;

/// A survey is as good as new for so long: a plan reads all its values within some milliseconds. Chosen far below the second between two rounds.
const FRESH: Duration = Duration::from_millis(250);

/// What this thread has read a moment ago.
#[derive(Debug, Default)]
struct Recent {
    survey: Option<(Instant, Rc<Survey>)>,
    wrote: Option<Instant>,
}

thread_local! {
    static RECENT: RefCell<Recent> = RefCell::new(Recent::default());
}

/// All of the host, as it is now or was a moment ago.
///
/// # Errors
/// As [`Survey::read`].
pub fn survey() -> Result<Rc<Survey>, Error> {
    if let Some(survey) = kept() {
        return Ok(survey);
    }
    let survey = Rc::new(Survey::read()?);
    RECENT.with_borrow_mut(|recent| recent.survey = Some((Instant::now(), Rc::clone(&survey))));
    Ok(survey)
}

/// Has this thread ask `run` in place of `xl`: for tests, which have no Xen.
#[cfg(feature = "fake")]
#[doc(hidden)]
pub fn ask_instead(run: Rc<xl::Run>) {
    xl::ask_instead(run);
    forget();
}

/// Forgets what was read: somebody else may have written.
pub fn forget() {
    RECENT.with_borrow_mut(|recent| *recent = Recent::default());
}

fn kept() -> Option<Rc<Survey>> {
    RECENT.with_borrow(|recent| {
        let (at, survey) = recent.survey.as_ref()?;
        (at.elapsed() < FRESH).then(|| Rc::clone(survey))
    })
}

/// The survey for a value; `None` if one was written a moment ago: then the values are read that are asked for.
fn for_many() -> Result<Option<Rc<Survey>>, Error> {
    let wrote = RECENT.with_borrow(|recent| recent.wrote);
    match wrote {
        Some(at) if at.elapsed() < FRESH => Ok(None),
        _ => survey().map(Some),
    }
}

/// Weight and cap of a domain.
///
/// # Errors
/// If `xl` does not say, or the domain has another scheduler by now.
pub fn shares(domain: &DomainKey, scheduler: Scheduler) -> Result<Option<Shares>, Error> {
    let survey = for_many()?;
    let found = survey.as_ref().and_then(|survey| Some((survey, survey.domain(domain)?)));
    if let Some((survey, found)) = found {
        let is_its = survey.scheduler_of(found) == Some(scheduler);
        if let (Some(weight), Some(cap_percent), true) = (found.weight, found.cap_percent, is_its) {
            return Ok(Some(Shares { weight, cap_percent }));
        }
    } else if is_gone(survey.as_deref(), domain)? {
        return Ok(None);
    }
    let id = domain.id.to_string();
    let arguments = [scheduler.command(), "-d", &id];
    let text = xl::run(&arguments)?;
    shares::parse(&text, domain.id).map(Some).map_err(wrong(&arguments))
}

/// Gives a domain a weight. False if it is gone.
///
/// # Errors
/// If `xl` refuses.
pub fn set_weight(domain: &DomainKey, scheduler: Scheduler, weight: u32) -> Result<bool, Error> {
    set_share(domain, scheduler, "-w", weight)
}

/// Gives a domain a cap, in percent of a pCPU; 0 is none. False if it is gone.
///
/// # Errors
/// If `xl` refuses.
pub fn set_cap(domain: &DomainKey, scheduler: Scheduler, percent: u32) -> Result<bool, Error> {
    set_share(domain, scheduler, "-c", percent)
}

fn set_share(domain: &DomainKey, with: Scheduler, option: &str, to: u32) -> Result<bool, Error> {
    let (id, to) = (domain.id.to_string(), to.to_string());
    write_to(domain, &[with.command(), "-d", &id, option, &to])
}

/// Where a vCPU may run, and where it does if it can.
///
/// # Errors
/// If `xl` does not say.
pub fn affinity(domain: &DomainKey, vcpu: u32) -> Result<Option<Affinity>, Error> {
    let survey = for_many()?;
    if let Some(found) = survey.as_ref().and_then(|survey| survey.domain(domain)) {
        if !found.vcpus.is_empty() {
            let its = found.vcpus.iter().find(|its| its.vcpu == vcpu);
            return Ok(its.map(|its| Affinity {
                hard: its.hard_affinity.clone(),
                soft: its.soft_affinity.clone(),
            }));
        }
    } else if is_gone(survey.as_deref(), domain)? {
        return Ok(None);
    }
    let id = domain.id.to_string();
    let arguments = ["vcpu-list", &id];
    let text = xl::run(&arguments)?;
    affinity::parse(&text, domain.id, vcpu).map_err(wrong(&arguments))
}

/// Says where a vCPU may run, and where it shall if it can. False if it is gone.
///
/// # Errors
/// If `xl` refuses: it has no such pCPU, or not in the domain's pool.
pub fn set_affinity(domain: &DomainKey, vcpu: u32, to: &Affinity) -> Result<bool, Error> {
    let (id, vcpu) = (domain.id.to_string(), vcpu.to_string());
    write_to(domain, &["vcpu-pin", &id, &vcpu, &to.hard, &to.soft])
}

/// The parameters of a pool's scheduler; `None` if there is no such pool, or it has another scheduler by now.
///
/// # Errors
/// If `xl` does not say.
pub fn parameters(pool: &str, scheduler: Scheduler) -> Result<Option<SchedulerParameters>, Error> {
    let survey = match for_many()? {
        Some(survey) => survey,
        None => {
            let arguments = [scheduler.command(), "-s", "-p", pool];
            let said = xl::run(&arguments);
            let its = said.ok().and_then(|text| scheduler::parameters(&text).remove(pool));
            match its.filter(|its| its.ratelimit_us.is_some()) {
                Some(its) => return Ok(Some(its)),
                // It has gone, or all of `xl` fails.
                None => survey()?,
            }
        }
    };
    let found = survey.pools.iter().find(|found| found.name == pool);
    let Some(found) = found.filter(|found| Scheduler::named(&found.scheduler) == Some(scheduler))
    else {
        return match survey.pools.is_empty() {
            true => Err(wrong(&["cpupool-list"])("it names no pool".to_string())),
            false => Ok(None),
        };
    };
    match found.parameters.ratelimit_us {
        Some(_) => Ok(Some(found.parameters.clone())),
        None => Err(wrong(&[scheduler.command(), "-s", "-p", pool])("no `ratelimit`".to_string())),
    }
}

/// Gives the scheduler of a pool a rate limit, and credit also a slice, both at once: credit refuses a limit above its slice. False if the
/// pool is gone.
///
/// # Errors
/// If `xl` refuses.
pub fn set_parameters(
    pool: &str,
    scheduler: Scheduler,
    ratelimit_us: u32,
    timeslice_ms: Option<u32>,
) -> Result<bool, Error> {
    if parameters(pool, scheduler)?.is_none() {
        return Ok(false);
    }
    let (limit, slice) = (ratelimit_us.to_string(), timeslice_ms.map(|ms| ms.to_string()));
    let mut arguments = vec![scheduler.command(), "-s", "-p", pool];
    if let Some(slice) = &slice {
        arguments.extend(["-t", slice]);
    }
    arguments.extend(["-r", &limit]);
    write(&arguments).map(|()| true)
}

/// The pCPUs of the host that are online.
///
/// # Errors
/// As [`survey`].
pub fn pcpus() -> Result<Option<u32>, Error> {
    survey().map(|survey| survey.hypervisor.pcpus)
}

/// Whether a domain is gone, and not only unknown: of what could not be listed nobody knows.
fn is_gone(survey: Option<&Survey>, domain: &DomainKey) -> Result<bool, Error> {
    match survey {
        Some(survey) if survey.is_listed() => Ok(!survey.unknown.contains(domain)),
        _ => is_there(domain).map(|there| !there),
    }
}

/// Whether this domain has this number now.
fn is_there(domain: &DomainKey) -> Result<bool, Error> {
    let arguments = ["list", "-v"];
    let there = identity::parse(&xl::run(&arguments)?).map_err(wrong(&arguments))?;
    Ok(there.get(&domain.id) == Some(&domain.uuid))
}

/// Writes to a domain, if it is there. It may end between the two runs of `xl`, which has no command for both; its number is not given
/// away that soon (Xen counts up to 32751 before it begins again).
fn write_to(domain: &DomainKey, arguments: &[&str]) -> Result<bool, Error> {
    if !is_there(domain)? {
        return Ok(false);
    }
    write(arguments).map(|()| true)
}

fn write(arguments: &[&str]) -> Result<(), Error> {
    let wrote = || {
        RECENT.with_borrow_mut(|recent| {
            *recent = Recent { survey: None, wrote: Some(Instant::now()) };
        });
    };
    wrote();
    let done = xl::run(arguments);
    // It may have taken long.
    wrote();
    done.map(|_| ())
}

fn wrong(arguments: &[&str]) -> impl Fn(String) -> Error {
    let command = format!("xl {}", arguments.join(" "));
    move |says| Error::Command { command: command.clone(), says }
}
