//! Virtual functions of a NIC (SR-IOV): what is sent by them passes no queue of the host's.

use std::path::Path;

/// How many virtual functions of the interface are made (`sriov_numvfs`); 0 if it has none, or is no NIC.
pub fn virtual_functions(sys: &Path, name: &str) -> u32 {
    let file = sys.join("class/net").join(name).join("device/sriov_numvfs");
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_counted() {
        let sys = tempfile::tempdir().expect("a directory");
        for (name, text) in [("eth0", "4\n"), ("eth1", "0\n"), ("eth2", "?")] {
            let device = sys.path().join("class/net").join(name).join("device");
            std::fs::create_dir_all(&device).expect("a directory");
            std::fs::write(device.join("sriov_numvfs"), text).expect("a file");
        }
        let of = |name| virtual_functions(sys.path(), name);
        assert_eq!(["eth0", "eth1", "eth2", "none"].map(of), [4, 0, 0, 0]);
    }
}
