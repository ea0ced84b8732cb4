//! Which CPUs are of one core, one cache and one node, as the kernel says.

use std::fs;
use std::path::Path;

use lowtail_trace::CpuPlace;

/// The places of all CPUs that are online, by number. Where the kernel says nothing of a CPU's core or cache, it has them for itself.
pub(super) fn read(sys: &Path) -> Vec<CpuPlace> {
    let cpus = sys.join("devices/system/cpu");
    let dirs = fs::read_dir(&cpus).into_iter().flatten().flatten();
    let number = |name: &str, word: &str| name.strip_prefix(word)?.parse::<u16>().ok();
    let mut places: Vec<CpuPlace> = dirs
        .filter_map(|dir| {
            let cpu = number(dir.file_name().to_str()?, "cpu")?;
            let core = first(&dir.path().join("topology/thread_siblings_list"))?;
            let cache = last_cache(&dir.path()).unwrap_or(cpu);
            let names = fs::read_dir(dir.path()).into_iter().flatten().flatten();
            let mut nodes = names.filter_map(|name| number(name.file_name().to_str()?, "node"));
            Some(CpuPlace { cpu, core, cache, node: nodes.next().unwrap_or(0) })
        })
        .collect();
    places.sort_by_key(|place| place.cpu);
    places
}

/// The lowest CPU of those that share the cache of the highest level.
fn last_cache(cpu: &Path) -> Option<u16> {
    let caches = fs::read_dir(cpu.join("cache")).ok()?.flatten();
    let level = |dir: &Path| fs::read_to_string(dir.join("level")).ok()?.trim().parse::<u8>().ok();
    let caches = caches.filter_map(|cache| Some((level(&cache.path())?, cache.path())));
    let (_, last) = caches.max_by_key(|(level, _)| *level)?;
    first(&last.join("shared_cpu_list"))
}

/// The first number of a list such as `0,64` or `0-3`.
fn first(file: &Path) -> Option<u16> {
    let text = fs::read_to_string(file).ok()?;
    text.trim().split(['-', ',']).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_host_with_two_nodes() {
        let dir = tempfile::tempdir().expect("a directory");
        let put = |path: String, text: &str| {
            let path = dir.path().join("devices/system/cpu").join(path);
            fs::create_dir_all(path.parent().expect("a directory")).expect("ours");
            fs::write(path, text).expect("ours");
        };
        for (cpu, siblings, cache, node) in
            [(0, "0,2", "0-3", 0), (2, "0,2", "0-3", 0), (10, "10-11", "10-11", 1)]
        {
            put(format!("cpu{cpu}/topology/thread_siblings_list"), &format!("{siblings}\n"));
            put(format!("cpu{cpu}/cache/index0/level"), "1\n");
            put(format!("cpu{cpu}/cache/index0/shared_cpu_list"), &format!("{cpu}\n"));
            put(format!("cpu{cpu}/cache/index3/level"), "3\n");
            put(format!("cpu{cpu}/cache/index3/shared_cpu_list"), &format!("{cache}\n"));
            put(format!("cpu{cpu}/node{node}/x"), "");
        }
        // Offline: it has no topology. And what is no CPU.
        put("cpu3/online".into(), "0\n");
        put("cpufreq/boost".into(), "1\n");
        let place = |cpu, core, cache, node| CpuPlace { cpu, core, cache, node };
        let places = read(dir.path());
        assert_eq!(places, [place(0, 0, 0, 0), place(2, 0, 0, 0), place(10, 10, 10, 1)]);
        assert_eq!(read(&dir.path().join("none")), []);
    }
}
