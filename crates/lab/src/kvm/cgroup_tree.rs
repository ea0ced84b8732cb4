//! Control groups: those that a file lists, and the tree that a host has.

use std::collections::BTreeMap;

use lowtail_host::Cgroup;
use lowtail_host::cgroup::{CgroupConfig, Limit};
use lowtail_libvirt::name::shown;
use lowtail_libvirt::range::CgroupVersion;
use schemars::JsonSchema;
use serde::Deserialize;

use super::micros::{LimitFile, Micros};
use crate::error::{KeyError, hint};

/// Most groups of a host.
const GROUPS_MAX: usize = 20_000;
/// Longest path of a group, in bytes.
const PATH_BYTES_MAX: usize = 1000;

/// A control group by itself.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CgroupFile {
    /// Its path below the root: `"a/b"`. Groups above it are made if they are not listed.
    pub name: String,
    /// `cpu.shares` of cgroup v1: 2 to 262144, usual 1024.
    #[schemars(range(min = 2, max = 262_144))]
    pub shares: Option<i64>,
    /// Or `cpu.weight` of v2: 1 to 10000, usual 100.
    #[schemars(range(min = 1, max = 10_000))]
    pub weight: Option<i64>,
    /// Run time in each period: 1000 or more microseconds; 0 and less is no limit.
    pub quota: Option<Micros>,
    /// From one refill to the next: 1000 to 1000000 microseconds, usual 100000.
    pub period: Option<Micros>,
    /// Unused run time that is kept, up to the quota.
    pub burst: Option<Micros>,
}

impl CgroupFile {
    fn build(&self) -> Result<(Option<u64>, Option<Limit>), KeyError> {
        let shares = match (self.shares, self.weight) {
            (Some(_), Some(_)) => {
                return Err(KeyError::new("weight", "give one of `shares` and `weight`"));
            }
            (None, None) => None,
            (Some(shares), None) => Some(("shares", CgroupVersion::V1, shares)),
            (None, Some(weight)) => Some(("weight", CgroupVersion::V2, weight)),
        };
        let shares = shares.map(|(key, version, shares)| {
            version.check_shares(key, shares).map_err(|message| KeyError::new(key, message))?;
            Ok::<u64, KeyError>(version.kernel_shares(shares).unsigned_abs())
        });
        let limit = LimitFile {
            quota: ("quota", self.quota),
            period: ("period", self.period),
            burst: ("burst", self.burst),
        };
        Ok((shares.transpose()?, limit.build()?))
    }
}

/// The control groups of a host in the making.
#[derive(Debug, Default)]
pub(crate) struct CgroupTree {
    list: Vec<CgroupConfig>,
    by_name: BTreeMap<String, Cgroup>,
    /// Where in the file what is said about each stands.
    places: Vec<Vec<String>>,
}

impl CgroupTree {
    /// Those that a file lists.
    pub(crate) fn listed(files: &[CgroupFile]) -> Result<Self, KeyError> {
        let mut groups = CgroupTree::default();
        for (i, file) in files.iter().enumerate() {
            let place = ["cgroup".to_string(), i.to_string()];
            let here = |bad: KeyError| bad.under(&["cgroup", &i.to_string()]);
            check_path(&file.name).map_err(|message| here(KeyError::new("name", message)))?;
            let earlier = &files[..i];
            if earlier.iter().any(|other| other.name == file.name) {
                let message = format!("two groups are called `{}`", shown(&file.name));
                return Err(here(KeyError::new("name", message)));
            }
            let (shares, limit) = file.build().map_err(here)?;
            let group = groups.path(&file.name, &place).map_err(here)?;
            groups.places[group.index()] = place.to_vec();
            groups.tune(group, shares, limit);
        }
        Ok(groups)
    }

    /// The group at `path`, which is made if there is none, and so are those above it. They are
    /// said to stand at `place`.
    pub(crate) fn path(&mut self, path: &str, place: &[String]) -> Result<Cgroup, KeyError> {
        let mut parent = None;
        let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
        for end in ends {
            parent = Some(match self.find(&path[..end]) {
                Some(known) => known,
                None => self.push(&path[..end], parent, place)?,
            });
        }
        parent.ok_or_else(|| KeyError::new("", "a group without a name"))
    }

    /// A new group `name` in `parent`, of which `place` speaks.
    pub(crate) fn make(
        &mut self,
        parent: Option<Cgroup>,
        name: &str,
        place: &[String],
    ) -> Result<Cgroup, KeyError> {
        let path = match parent {
            Some(parent) => format!("{}/{name}", self.list[parent.index()].name),
            None => name.to_string(),
        };
        if self.find(&path).is_some() {
            let message = format!("the group `{path}` is there already");
            return Err(KeyError::new("", message));
        }
        self.push(&path, parent, place)
    }

    fn push(
        &mut self,
        path: &str,
        parent: Option<Cgroup>,
        place: &[String],
    ) -> Result<Cgroup, KeyError> {
        if self.list.len() >= GROUPS_MAX {
            return Err(KeyError::new(
                "",
                format!("more than {GROUPS_MAX} control groups by here"),
            ));
        }
        let group = Cgroup(self.list.len() as u16);
        self.list.push(CgroupConfig::new(path, parent));
        self.by_name.insert(path.to_string(), group);
        self.places.push(place.to_vec());
        Ok(group)
    }

    /// Sets what is given.
    pub(crate) fn tune(&mut self, group: Cgroup, shares: Option<u64>, limit: Option<Limit>) {
        let group = &mut self.list[group.index()];
        group.shares = shares.unwrap_or(group.shares);
        group.limit = limit.or(group.limit);
    }

    fn find(&self, path: &str) -> Option<Cgroup> {
        self.by_name.get(path).copied()
    }

    /// The group called `name`; the error says which ones there are.
    pub(crate) fn named(&self, name: &str) -> Result<Cgroup, String> {
        let names = self.list.iter().map(|group| group.name.as_str());
        let hint =
            || format!("no control group is called `{}`; {}", shown(name), hint(name, names));
        self.find(name).ok_or_else(hint)
    }

    /// The groups, and where in the file each stands.
    pub(crate) fn into_parts(self) -> (Vec<CgroupConfig>, Vec<Vec<String>>) {
        (self.list, self.places)
    }
}

/// What is wrong with the path of a group.
fn check_path(path: &str) -> Result<(), String> {
    let odd = |part: &str| {
        part.is_empty() || part == "." || part == ".." || part.chars().any(char::is_control)
    };
    if path.split('/').any(odd) || path.len() > PATH_BYTES_MAX {
        let path = shown(path);
        return Err(format!("`{path}`: names with `/` between them, such as \"a/b\""));
    }
    Ok(())
}
