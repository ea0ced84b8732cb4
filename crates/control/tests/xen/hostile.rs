//! Names of domains are anything; so is what `xl` prints of them.

use super::fake::Host;
use super::{POLICY, World, apply, plan, revert};

/// Rows of tables that a name could look like; the domain that has it is `batch`'s.
const NAMES: [&str; 7] = [
    "x\nweb                                  1     0    0 r--       0.1  3 / 3",
    "web",
    "web 1",
    "-d 1",
    "\u{1b}[2J\u{202e}",
    "x\ny                                    2    999   99",
    "",
];

#[test]
fn a_name_changes_no_other_domain() {
    for name in NAMES {
        let mut before = Host::usual();
        before.named("batch").name = name.to_string();
        let world = World::new(&before);
        let policy = POLICY.replace("name = \"batch\"", "name = \"*\"");
        let (_, applied) = apply(world.dir(), &policy);
        assert_eq!(applied.failed, [], "{name:?}");
        let mut host = world.fake.host();
        let web = host.domains.iter_mut().find(|domain| domain.id == 1).expect("web");
        assert_eq!((web.weight, web.cap), (1024, 150), "{name:?}");
        let shown: Vec<String> =
            plan(world.dir(), &policy).right.iter().map(|right| right.knob.to_string()).collect();
        assert!(!shown.iter().any(|label| label.contains(char::is_control)), "{shown:?}");
        let reverted = revert(world.dir());
        assert_eq!((reverted.failed, reverted.foreign), (vec![], vec![]), "{name:?}");
        assert_eq!(world.fake.host(), before, "{name:?}");
    }
}

/// A name that looks like the row of another domain with another uuid: nobody knows who is there, and nothing is changed.
#[test]
fn a_name_that_is_another_domain_is_told() {
    let mut before = Host::usual();
    let forged = "x\nweb                                          1    96     1     r-----       0.1 99999999-e6a4-11f0-bf61-bb65f7b1e952        -                -\ny";
    let world = World::new(&before);
    apply(world.dir(), POLICY);
    let whole = world.fake.host();
    world.fake.change(|host| host.named("batch").name = forged.to_string());
    let mut policy = lowtail_control::xen::scan(&lowtail_kernel::Roots::default());
    let why = policy.unknown.take().expect("it is told");
    assert!(why.contains("domain 1 is listed twice"), "{why}");
    let reverted = revert(world.dir());
    assert!(reverted.failed.len() > 5, "{reverted:?}");
    // Once it has another name, all is restored: nothing was forgotten.
    world.fake.change(|host| {
        let batch = host.domains.iter_mut().find(|domain| domain.id == 2).expect("batch");
        batch.name = "batch".to_string();
    });
    assert_ne!(world.fake.host(), before);
    assert_eq!(world.fake.host().domains.len(), whole.domains.len());
    assert_eq!(revert(world.dir()).failed, []);
    before.named("batch").name = "batch".to_string();
    assert_eq!(world.fake.host(), before);
}
