//! What a scan could not find out.

/// What one scan could not find out.
#[derive(Debug, Default)]
pub(super) struct Troubles {
    /// Processes of which nothing can be read.
    pub(super) hidden: u32,
    /// Processes whose programs cannot be read.
    pub(super) programs: u32,
    /// Machines whose open files cannot be read.
    pub(super) files: u32,
    /// Machines in control groups that cannot be seen from here.
    pub(super) outside: u32,
    /// What was said already.
    pub(super) told: Vec<String>,
}

impl Troubles {
    /// All of it, in words.
    pub(super) fn told(self) -> Vec<String> {
        let Troubles { hidden, programs, files, outside, mut told } = self;
        let mut tell = |n: u32, what: &str, consequence: &str, remedy: &str| {
            if n > 0 {
                told.push(format!("{n} {what}: {consequence}; {remedy}"));
            }
        };
        let root = "run lowtail as root";
        tell(hidden, "processes are hidden", "machines may be missing", root);
        let by_name = "machines are recognised by the names of processes, which anybody can choose";
        tell(programs, "processes do not show their program", by_name, root);
        tell(
            files,
            "machines do not show their open files",
            "their interfaces are not known",
            root,
        );
        let namespace = "run lowtail outside of the container";
        tell(
            outside,
            "machines are in control groups outside of ours",
            "their quotas are not seen",
            namespace,
        );
        told
    }
}
