//! What the user says is a VM.

use std::path::{Component, Path, PathBuf};
use std::str::FromStr;

use super::Name;

/// The longest name of an interface, without the end of the string (`IFNAMSIZ`, `linux/if.h`).
pub(super) const INTERFACE_MAX: usize = 15;

/// A VM by the user's word: `NAME=CGROUP` or `NAME=PID`, with `,tap=INTERFACE` for each of its interfaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declared {
    /// What to call it.
    pub name: Name,
    /// What it consists of.
    pub target: Target,
    /// Interfaces that end in it, beside those that its processes hold.
    pub taps: Vec<Name>,
}

/// What a declared VM consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A process with all its threads.
    Pid(u32),
    /// All threads in a control group and below it. As given: absolute as a directory, or as the kernel shows it in
    /// `/proc/PID/cgroup`, with or without the first slash.
    Cgroup(PathBuf),
}

/// Why a VM cannot be declared so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{}`: {why}; right would be NAME=CGROUP or NAME=PID, and ,tap=INTERFACE behind it, such as web=/machine.slice/web.scope,tap=tap0",
    Name::new(given)
)]
pub struct Undeclared {
    given: String,
    why: String,
}

impl FromStr for Declared {
    type Err = Undeclared;

    fn from_str(given: &str) -> Result<Self, Undeclared> {
        let wrong = |why: &str| Undeclared { given: given.to_string(), why: why.to_string() };
        let (name, rest) = given.split_once('=').ok_or_else(|| wrong("there is no `=`"))?;
        if name.is_empty() {
            return Err(wrong("there is no name before `=`"));
        }
        let mut parts = rest.split(",tap=");
        let target = parts.next().unwrap_or_default();
        let taps = parts.map(|tap| {
            if is_interface(tap) {
                return Ok(Name::new(tap));
            }
            Err(wrong(&format!("`{}` is not the name of an interface", Name::new(tap))))
        });
        let taps = taps.collect::<Result<_, _>>()?;
        let target = match target {
            "" => return Err(wrong("there is neither control group nor process behind `=`")),
            number if number.bytes().all(|b| b.is_ascii_digit()) => {
                let pid = number.parse().ok().filter(|pid| (1..=i32::MAX as u32).contains(pid));
                Target::Pid(pid.ok_or_else(|| wrong("there is no process of that number"))?)
            }
            path => Target::Cgroup(group(path).map_err(wrong)?),
        };
        Ok(Declared { name: Name::new(name), target, taps })
    }
}

/// A control group that is one: below the top, and nowhere else.
fn group(path: &str) -> Result<PathBuf, &'static str> {
    let parts = || Path::new(path).components();
    if path.contains('\0') || parts().any(|part| part == Component::ParentDir) {
        return Err("a control group's path has no `..` and no zero byte");
    }
    if !parts().any(|part| matches!(part, Component::Normal(_))) {
        return Err("the topmost control group is everything; name one below it");
    }
    Ok(PathBuf::from(path))
}

/// Whether the kernel would take it as an interface's name: `dev_valid_name` in `net/core/dev.c`.
pub fn is_interface(name: &str) -> bool {
    let fits = (1..=INTERFACE_MAX).contains(&name.len()) && name != "." && name != "..";
    fits && !name.bytes().any(|b| b == b'/' || b == b':' || b == 0 || b.is_ascii_whitespace())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declared(text: &str) -> Declared {
        text.parse().expect("as documented")
    }

    #[test]
    fn groups_processes_and_interfaces() {
        let web = declared("web=/machine.slice/web.scope,tap=tap0,tap=v,1");
        assert_eq!(web.target, Target::Cgroup("/machine.slice/web.scope".into()));
        assert_eq!(web.taps, [Name::new("tap0"), Name::new("v,1")]);
        assert_eq!(declared("a=42").target, Target::Pid(42));
        // A group that is called like a number.
        assert_eq!(declared("a=/42").target, Target::Cgroup("/42".into()));
        assert_eq!(declared("a=b=c,d").target, Target::Cgroup("b=c,d".into()));
    }

    #[test]
    fn errors_name_what_is_wrong() {
        for (text, why) in [
            ("web", "no `=`"),
            ("=12", "no name"),
            ("a=", "neither"),
            ("a=0", "no process"),
            ("a=99999999999", "no process"),
            ("a=../x", "no `..`"),
            ("a=/", "topmost"),
            ("a=x,tap=", "not the name of an interface"),
            ("a=x,tap=a/b", "not the name of an interface"),
            ("a=x,tap=0123456789abcdef", "not the name of an interface"),
            ("a\x1b[2J", "no `=`"),
        ] {
            let error = text.parse::<Declared>().expect_err(text).to_string();
            assert!(error.contains(why) && error.contains("NAME=PID"), "{error}");
            assert!(!error.contains('\x1b'), "{error}");
        }
    }
}
