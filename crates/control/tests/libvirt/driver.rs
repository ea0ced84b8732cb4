//! libvirt's test driver: one VM, `test`, with two vCPUs, on a host with 16 CPUs that is in memory only
//! (libvirt's `test_driver.c`). It pins vCPUs, and has neither shares nor quotas.

use lowtail_control::libvirt::{Connection, Domain, Error, Running};

use super::{alone, key, no_library, options, read, skip, write};

fn connect() -> (Connection, Running) {
    let connection = Connection::open(options("test:///default"));
    let connection = connection.unwrap_or_else(|error| panic!("{error}"));
    let mut running = connection.running().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(running.len(), 1, "{running:?}");
    (connection, running.remove(0))
}

#[test]
fn the_machine_is_found() {
    let _alone = alone();
    if skip(no_library()) {
        return;
    }
    let (_, test) = connect();
    assert_eq!((test.name.as_given(), test.domain.id, test.odd), ("test", 1, None));
    assert_eq!(test.domain.uuid.len(), 36, "{}", test.domain);
}

#[test]
fn vcpus_are_pinned_and_put_back() {
    let _alone = alone();
    if skip(no_library()) {
        return;
    }
    let (connection, test) = connect();
    let [was, other] = ["vcpupin.0", "vcpupin.1"].map(|key| read(&connection, &test.domain, key));
    write(&connection, &test.domain, "vcpupin.0", "2,0");
    assert_eq!(read(&connection, &test.domain, "vcpupin.0"), "0,2");
    assert_eq!(read(&connection, &test.domain, "vcpupin.1"), other);
    write(&connection, &test.domain, "vcpupin.0", &was);
    assert_eq!(read(&connection, &test.domain, "vcpupin.0"), was);
}

#[test]
fn what_is_not_there_is_said() {
    let _alone = alone();
    if skip(no_library()) {
        return;
    }
    let (connection, test) = connect();
    let error = connection.read(&test.domain, key("cpu_shares")).expect_err("no shares");
    // The driver knows no flag that libvirt itself adds to this call.
    assert!(matches!(error, Error::Refused { .. }), "{error}");
    assert!(error.to_string().contains("cpu_shares"), "{error}");
    let error = connection.read(&test.domain, key("vcpupin.2")).expect_err("two vCPUs");
    assert!(matches!(error, Error::NoSuch { .. }), "{error}");
    assert!(error.to_string().contains("vcpupin.2"), "{error}");
    for (name, value) in [("vcpupin.0", "9999"), ("vcpupin.0", ""), ("vcpu_quota", "much")] {
        let error = connection.write(&test.domain, key(name), value).expect_err(value);
        assert!(error.to_string().contains(name), "{error}");
    }
    // Nothing of it was done.
    assert_eq!(
        read(&connection, &test.domain, "vcpupin.0"),
        read(&connection, &test.domain, "vcpupin.1")
    );
}

#[test]
fn a_machine_that_is_not_there_is_gone() {
    let _alone = alone();
    if skip(no_library()) {
        return;
    }
    let (connection, test) = connect();
    let gone = [
        // Started again since.
        Domain { id: 2, ..test.domain.clone() },
        Domain { uuid: "00000000-0000-4000-8000-000000000000".to_string(), id: 1 },
        Domain { uuid: "a\0b".to_string(), id: 1 },
    ];
    for domain in gone {
        let value = connection.read(&domain, key("vcpupin.0"));
        assert_eq!(value.unwrap_or_else(|error| panic!("{error}")), None);
        let done = connection.write(&domain, key("vcpupin.0"), "0");
        assert!(!done.unwrap_or_else(|error| panic!("{error}")));
    }
    // What is no number of a VM's is an error, not a crash.
    let odd = Domain { uuid: "\x1b[2J".to_string(), id: 1 };
    let error = connection.read(&odd, key("vcpupin.0")).expect_err("no UUID");
    assert!(!error.to_string().contains('\x1b'), "{error:?}");
}

#[test]
fn nothing_goes_over_a_network_unasked() {
    let _alone = alone();
    for uri in ["qemu+ssh://127.0.0.1/system", "test://elsewhere/default", "nothing"] {
        let error = Connection::open(options(uri)).err().expect(uri);
        assert!(matches!(error, Error::Uri { .. }), "{error}");
    }
    if skip(no_library()) {
        return;
    }
    // A driver that libvirt does not have, and a libvirtd that is not there.
    for uri in ["lowtail:///system", "qemu+unix:///system?socket=/nonexistent/libvirt-sock"] {
        let error = Connection::open(options(uri)).err().expect(uri);
        assert!(matches!(error, Error::Open { .. }), "{error}");
    }
}
