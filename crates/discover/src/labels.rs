//! What the host's people have written on control groups.

use std::collections::BTreeMap;
use std::path::Path;

use lowtail_libvirt::labels::{LABELS_MAX, VALUE_BYTES_MAX};
use rustix::fs::{getxattr, listxattr, listxattr_query};

use lowtail_kernel::cgroup::Hierarchy;

/// Labels are extended attributes with this before their name. Who sets one of `trusted` has `CAP_SYS_ADMIN` on the host
/// (`xattr(7)`); control groups have them in both versions. Those of `user` would be anybody's to whom the group was given.
const PREFIX: &str = "trusted.lowtail.";
/// Most bytes of names that Linux tells of (`XATTR_LIST_MAX`, `linux/limits.h`).
const NAMES_BYTES: usize = 65_536;

/// Labels of the group `path` below the mount point, by name. None where there are none, or they cannot be read: who may not read
/// attributes of `trusted` does not see them. Too long a value, or one that is no UTF-8, is no label.
pub(super) fn of(hierarchy: Option<&Hierarchy>, path: Option<&Path>) -> BTreeMap<String, String> {
    let (Some(hierarchy), Some(path)) = (hierarchy, path) else { return BTreeMap::new() };
    let dir = hierarchy.root.join(path.strip_prefix("/").unwrap_or(path));
    // Most groups have no attribute; those that have get the room.
    let names = match listxattr_query(&dir) {
        Ok(0) | Err(_) => return BTreeMap::new(),
        Ok(bytes) => {
            let mut names = vec![0; (2 * bytes).min(NAMES_BYTES)];
            let Ok(bytes) = listxattr(&dir, &mut names) else { return BTreeMap::new() };
            names.truncate(bytes);
            names
        }
    };
    let names = names.split(|&byte| byte == 0).filter_map(|name| std::str::from_utf8(name).ok());
    let labels = names.filter_map(|full| {
        let name = full.strip_prefix(PREFIX).filter(|name| !name.is_empty())?;
        let mut value = [0; VALUE_BYTES_MAX];
        let bytes = getxattr(&dir, full, &mut value).ok()?;
        let value = std::str::from_utf8(&value[..bytes]).ok()?;
        Some((name.to_string(), value.trim().to_string()))
    });
    labels.take(LABELS_MAX).collect()
}
