//! VMs of libvirt's: read as it reads them, refused as it refuses them, never a panic.

use lowtail_libvirt::{Cpus, Domain, Policy};
use proptest::prelude::*;

const WEB: &str = include_str!("data/web.xml");

fn domain(inner: &str) -> String {
    format!("<domain type='kvm'>\n<name>x</name>\n{inner}\n</domain>")
}

fn parse(inner: &str) -> Result<Domain, String> {
    Domain::parse("x.xml", &domain(inner)).map_err(|error| error.to_string())
}

fn cpus(text: &str) -> Cpus {
    Cpus::parse(text).unwrap()
}

#[test]
fn all_of_cputune_is_read() {
    let web = Domain::parse("web.xml", WEB).unwrap();
    assert_eq!((web.name.as_str(), &web.vcpus[..]), ("web", &[0, 1][..]));
    // Three threads, of which one is numbered: the others have the first free numbers.
    assert_eq!(web.iothreads, [1, 2, 5]);
    assert_eq!(web.cpuset, Some(cpus("0-7")));
    let tune = web.cputune;
    assert_eq!((tune.shares, tune.period, tune.quota), (Some(2048), Some(100_000), Some(50_000)));
    assert_eq!((tune.global_period, tune.global_quota), (Some(50_000), Some(-1)));
    // 0 is no value.
    assert_eq!((tune.emulator_period, tune.emulator_quota), (None, Some(25_000)));
    assert_eq!((tune.iothread_period, tune.iothread_quota), (None, Some(10_000)));
    // A pin of a vCPU that there cannot be is left out, as by libvirt.
    assert_eq!(tune.vcpupin, [(0, cpus("0,1,3")), (1, cpus("1"))]);
    assert_eq!(tune.emulatorpin, Some(cpus("4,5")));
    assert_eq!(tune.iothreadpin, [(5, cpus("6"))]);
    // A priority is ignored where there is none.
    assert_eq!(tune.vcpusched, [(cpus("0"), Policy::Fifo(2)), (cpus("1-3"), Policy::Batch)]);
    assert_eq!(tune.iothreadsched, [(cpus("1"), Policy::Rr(99))]);
    assert_eq!(tune.emulatorsched, Some(Policy::Idle));
}

#[test]
fn what_is_absent_is_usual() {
    let x = parse("").unwrap();
    assert_eq!((&x.vcpus[..], x.iothreads.len(), x.cpuset), (&[0][..], 0, None));
    assert_eq!(x.cputune, lowtail_libvirt::Cputune::default());
    // Single vCPUs say which are online; a pin of one that is not is kept.
    let x = parse(
        "<vcpu>4</vcpu><vcpus><vcpu id='0' enabled='yes'/><vcpu id='3' enabled='yes'/>\
         <vcpu id='1' enabled='no'/></vcpus><cputune><vcpupin vcpu='3' cpuset='7'/></cputune>",
    );
    let x = x.unwrap();
    assert_eq!((x.vcpus, x.cputune.vcpupin), (vec![0, 3], vec![(3, cpus("7"))]));
    let status = format!("<domstatus state='running'>{}</domstatus>", domain("<vcpu>2</vcpu>"));
    assert_eq!(Domain::parse("x", &status).unwrap().vcpus.len(), 2);
}

/// Of a value libvirt takes the first (`./cputune/quota[1]`); what it looks for one by one must
/// not be there twice.
#[test]
fn duplicates_are_as_libvirt_has_them() {
    let x = parse("<cputune><quota>2000</quota><quota>9</quota></cputune>").unwrap();
    assert_eq!(x.cputune.quota, Some(2000));
    let x = parse("<cputune><quota>2000</quota></cputune><cputune><shares>9</shares></cputune>");
    assert_eq!(x.unwrap().cputune.shares, Some(9));
    for (twice, wanted) in [
        ("<vcpupin vcpu='0' cpuset='1'/>", "x.xml:3:40: <vcpupin>: vCPU 0 is pinned twice"),
        ("<emulatorpin cpuset='1'/>", "x.xml:3:35: <emulatorpin>: libvirt takes one of them"),
        ("<emulatorsched scheduler='idle'/>", "<emulatorsched>: libvirt takes one of them"),
        ("<vcpusched vcpus='0' scheduler='idle'/>", "<vcpusched>: vcpus: number 0 is there twice"),
    ] {
        let message = parse(&format!("<cputune>{twice}{twice}</cputune>")).unwrap_err();
        assert!(message.contains(wanted), "{message}\n{wanted}");
    }
}

#[test]
fn bad_values_are_refused_with_line_element_and_range() {
    for (inner, wanted) in [
        ("<vcpu>0</vcpu>", "x.xml:3:1: <vcpu>: 0: 1 to 16384"),
        ("<vcpu>two</vcpu>", "<vcpu>: `two` is no whole number"),
        ("<vcpu current='3'>2</vcpu>", "<vcpu>: current 3 of 2 vCPUs"),
        ("<vcpu cpuset='4-1'>2</vcpu>", "<vcpu>: cpuset: `4-1`: the first is higher"),
        ("<iothreads>-1</iothreads>", "<iothreads>: -1: 0 to 16384"),
        (
            "<cputune>\n<shares>0</shares></cputune>",
            "x.xml:4:1: <shares>: shares 0: libvirt takes 2 to 262144 with cgroup v1, 1 to 10000 with v2",
        ),
        ("<cputune><shares/></cputune>", "<shares>: `` is no whole number"),
        (
            "<cputune><period>999</period></cputune>",
            "<period>: period 999: libvirt takes 1000 to 1000000 microseconds",
        ),
        (
            "<cputune><global_period>1000001</global_period></cputune>",
            "<global_period>: global_period 1000001: libvirt takes 1000 to 1000000",
        ),
        (
            "<cputune><quota>1</quota></cputune>",
            "<quota>: quota 1: libvirt takes 1000 to 17592186044415",
        ),
        ("<cputune><quota>99999999999999999999</quota></cputune>", "is no whole number"),
        ("<cputune><vcpupin vcpu='0'/></cputune>", "<vcpupin>: `cpuset` is missing, such as"),
        ("<cputune><vcpupin cpuset='0'/></cputune>", "<vcpupin>: `vcpu` is missing, a number"),
        (
            "<cputune><vcpupin vcpu='0' cpuset='^1'/></cputune>",
            "cpuset: `^1`: 1 is not among those before it",
        ),
        ("<cputune><iothreadpin iothread='1' cpuset='0'/></cputune>", "there is no I/O thread 1"),
        (
            "<cputune><vcpusched vcpus='1' scheduler='idle'/></cputune>",
            "<vcpusched>: vcpus: there is no number 1",
        ),
        (
            "<cputune><vcpusched vcpus='0' scheduler='deadline'/></cputune>",
            "scheduler `deadline`: batch, idle, fifo or rr",
        ),
        (
            "<cputune><vcpusched vcpus='0' scheduler='rr'/></cputune>",
            "`priority` is missing: 1 to 99",
        ),
        (
            "<cputune><emulatorsched scheduler='rr' priority='0'/></cputune>",
            "priority 0: the kernel takes 1 to 99",
        ),
    ] {
        let message = parse(inner).unwrap_err();
        assert!(message.contains(wanted), "{message}\n{wanted}");
    }
    for (text, wanted) in [
        ("", "x.xml:1:1: no XML: "),
        ("<domain>\n<name>x</nam></domain>", "x.xml:2:8: no XML: "),
        ("<network><name>x</name></network>", "it begins with <network>, not with <domain>"),
        ("<domain/>", "x.xml:1:1: <name> is missing"),
    ] {
        let message = Domain::parse("x.xml", text).unwrap_err().to_string();
        assert!(message.contains(wanted), "{message}\n{wanted}");
    }
}

/// What takes memory or time for nothing is refused soon.
#[test]
fn bombs_do_not_go_off() {
    let laughs = "<!DOCTYPE domain [<!ENTITY a 'ha'><!ENTITY b '&a;&a;&a;&a;&a;&a;&a;&a;'>]>\
                  <domain><name>&b;</name></domain>";
    let message = Domain::parse("x.xml", laughs).unwrap_err().to_string();
    assert!(message.contains("DTD"), "{message}");
    let outside = "<!DOCTYPE d SYSTEM 'file:///etc/passwd'><domain><name>x</name></domain>";
    assert!(Domain::parse("x.xml", outside).is_err());
    let deep = format!("{}{}", "<a>".repeat(500_000), "</a>".repeat(500_000));
    assert!(Domain::parse("x.xml", &deep).is_err());
    let unclosed = "<a>".repeat(1_000_000);
    assert!(Domain::parse("x.xml", &unclosed).is_err());
    let many = domain(&"<a/>".repeat(300_000));
    assert!(Domain::parse("x.xml", &many).unwrap_err().message.contains("node"));
    let large = domain(&" ".repeat(5 << 20));
    assert!(Domain::parse("x.xml", &large).unwrap_err().message.contains("larger than 4 MiB"));
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,400}") {
        let _ = Domain::parse("x.xml", &text);
    }

    #[test]
    fn a_damaged_file_is_read_or_refused(
        cuts in prop::collection::vec((any::<prop::sample::Index>(), 0..40_usize, "[\\x20-\\x7e]{0,6}"), 1..5)
    ) {
        let mut text: Vec<char> = WEB.chars().collect();
        for (at, length, piece) in cuts {
            let from = at.index(text.len());
            let to = (from + length).min(text.len());
            text.splice(from..to, piece.chars());
            if text.is_empty() { break; }
        }
        let _ = Domain::parse("x.xml", &text.into_iter().collect::<String>());
    }

    #[test]
    fn a_cut_file_is_refused(at in any::<prop::sample::Index>()) {
        let end = at.index(WEB.trim_end().len());
        let error = Domain::parse("x.xml", &WEB[..end]).unwrap_err();
        // The place is within what is left.
        prop_assert!(error.line as usize <= WEB[..end].matches('\n').count() + 1);
    }

    #[test]
    fn any_list_is_read_or_refused(text in "[0-9,^ a-]{0,30}") {
        if let Ok(cpus) = Cpus::parse(&text) {
            prop_assert!(cpus.iter().next().is_some());
        }
    }
}
