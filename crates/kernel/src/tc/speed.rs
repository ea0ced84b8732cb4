//! How fast the line of an interface is.

use std::fs;
use std::path::Path;

/// What the line of the interface `name`, whose number is `ifindex`, carries, in bits per second, as its driver says:
/// `/sys/class/net/NAME/speed` (sysfs-class-net, megabits). `None` if it does not know, has no line now, or there is no device
/// behind it: a veth says 10 Gbit/s and a tap 10 Mbit/s, whatever they carry.
pub fn line_speed(sys: &Path, name: &str, ifindex: u32) -> Option<u64> {
    let dir = sys.join("class/net").join(name);
    if !dir.join("device").exists() {
        return None;
    }
    let read = |file: &str| fs::read_to_string(dir.join(file)).ok();
    // The interfaces of a /sys are those of the namespace in which it was mounted.
    if read("ifindex")?.trim().parse() != Ok(ifindex) {
        return None;
    }
    // -1 where it is not known, and an error where the interface is down.
    let mbit: u64 = read("speed")?.trim().parse().ok()?;
    // `SPEED_UNKNOWN` as some drivers print it.
    (mbit > 0 && mbit < u64::from(u32::MAX)).then(|| mbit * 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_says_its_speed_and_nobody_else() {
        let sys = tempfile::tempdir().expect("a directory");
        for (name, ifindex, speed, device) in [
            ("eth0", "2\n", "1000\n", true),
            ("eth1", "3\n", "-1\n", true),
            ("eth2", "4\n", "4294967295\n", true),
            ("eth3", "9\n", "100\n", true),
            ("veth0", "6\n", "10000\n", false),
        ] {
            let dir = sys.path().join("class/net").join(name);
            fs::create_dir_all(if device { dir.join("device") } else { dir.clone() }).unwrap();
            fs::write(dir.join("ifindex"), ifindex).unwrap();
            fs::write(dir.join("speed"), speed).unwrap();
        }
        let speed = |name: &str, ifindex| line_speed(sys.path(), name, ifindex);
        assert_eq!(speed("eth0", 2), Some(1_000_000_000));
        let none = [("eth1", 3), ("eth2", 4), ("veth0", 6), ("gone", 7)];
        assert_eq!(none.map(|(name, ifindex)| speed(name, ifindex)), [None; 4]);
        // Of the same name in another namespace.
        assert_eq!((speed("eth3", 9), speed("eth3", 5)), (Some(100_000_000), None));
    }
}
