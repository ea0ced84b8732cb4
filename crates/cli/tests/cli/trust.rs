//! A tenant's program that calls itself a virtual machine, on this host: it wins nothing.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;

use lowtail_kernel::cgroup::{Hierarchy, Version};
use lowtail_standin::{Standin, binary, shown};

use super::host::root;
use super::*;

/// The user who may nothing.
const NOBODY: u32 = 65_534;

/// Two hundred threads `CPU n/KVM` of nobody's, in a control group of its own that root has made, as a service's is.
struct Tenant {
    name: String,
    group: PathBuf,
    _program: TempDir,
    standin: Option<Standin>,
}

impl Tenant {
    fn new() -> Option<Self> {
        root()?;
        let hierarchy = need(Hierarchy::find().ok(), "no CPU controller of control groups")?;
        let name = format!("tenant{}", std::process::id());
        let group = hierarchy.root.join(format!("{name}.service"));
        fs::create_dir(&group).expect("a control group");
        let program = tempfile::tempdir().expect("a directory");
        fs::set_permissions(program.path(), fs::Permissions::from_mode(0o755)).expect("ours");
        let copy = program.path().join("lowtail-standin");
        fs::copy(binary(), &copy).expect("a copy");
        let mut command = Command::new(&copy);
        command.args(format!("--name web-{name} --vcpus 200").split(' ')).uid(NOBODY).gid(NOBODY);
        let mut tenant = Tenant { name, group, _program: program, standin: None };
        let standin = Standin::spawn(command).expect("it begins");
        fs::write(tenant.group.join("cgroup.procs"), standin.begun.pid.to_string()).expect("moved");
        if hierarchy.version == Version::V2 {
            fs::write(hierarchy.root.join("cgroup.subtree_control"), "+cpu").expect("a controller");
        }
        tenant.standin = Some(standin);
        Some(tenant)
    }

    /// All that could be given to it: of its group, and of each thread.
    fn has(&self) -> String {
        let begun = &self.standin.as_ref().expect("it runs").begun;
        let threads = begun.threads.iter().map(|(tid, _)| shown::thread(*tid).expect("it lives"));
        format!("{:?} {:?}", shown::group(&self.group), threads.collect::<Vec<_>>())
    }
}

impl Drop for Tenant {
    fn drop(&mut self) {
        drop(self.standin.take());
        let _ = fs::remove_dir(&self.group);
    }
}

/// An empty policy, and one for VMs of its name: its group and its threads stay as they are.
#[test]
fn a_tenant_decides_nothing() {
    let Some(tenant) = Tenant::new() else { return };
    let (place, before) = (Place::new(), tenant.has());
    let name = &tenant.name;
    place.write("empty.toml", "scheduler = \"fair\"");
    let chosen = format!(
        "scheduler = \"fair\"\n[[vm]]\nname = \"web-{name}\"\nweight = 10000\nslice = \"1ms\"\n"
    );
    place.write("web.toml", format!("{chosen}[[vm]]\nmanage = false\n"));
    for policy in ["empty.toml", "web.toml"] {
        let plan = place.line(&format!("host plan {policy} --state s"));
        plan.expect(0, &["users 65534: they are no VMs"]);
        assert!(!plan.out.contains(name), "{}", plan.out);
    }
    place.line("host apply web.toml --state s --no-look").expect(0, &[]);
    assert_eq!(tenant.has(), before);
    place.line("host revert --state s").expect(0, &[]);
    let vms = place.line("host vms --json");
    assert!(!vms.out.contains(&format!("web-{name}")), "{}", vms.out);

    // For the operator's word it is one: the control group's name chooses it, not its own, and two CPUs' worth of
    // vCPUs count on a host of two.
    let cpus = std::thread::available_parallelism().expect("a number").get();
    let vm = format!("--vm web-{name}=/{name}.service");
    let plan = place.line(&format!("host plan web.toml --state s {vm}"));
    let counted = format!("weight 10000 for each of {} vCPUs", cpus.min(200));
    plan.expect(0, &[]);
    assert!(plan.out.contains(&counted) && plan.out.contains("declared"), "{}", plan.out);
    // And where the policy names its user.
    let trusted = format!("users = [{NOBODY}]\n{chosen}[[vm]]\nmanage = false\n");
    place.write(
        "users.toml",
        trusted.replace(&format!("\"web-{name}\""), "\"*\"").replace("10000", "10"),
    );
    let plan = place.line("host plan users.toml --state s --json").json();
    let machines = plan["vms"].as_array().expect("machines");
    let own = machines.iter().find(|vm| vm["name"] == name.as_str()).expect("it is one");
    assert_eq!((&own["found_by"], &own["named_by"]), (&"program".into(), &"cgroup".into()));
    assert_eq!(own["uid"], NOBODY);
}
