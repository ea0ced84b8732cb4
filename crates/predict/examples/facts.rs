//! x
fn main() {
    let f = std::fs::File::open(std::env::args().nth(1).unwrap()).unwrap();
    let i = lowtail_trace::info(f, &Default::default()).unwrap();
    let r = i.recorded.unwrap();
    for vm in &r.vms { for t in &vm.threads { println!("{} {:?} {:?}", vm.name, t.role, r.facts.threads.get(&t.tid).map(|x| (x.policy, x.nice, x.slice_ns, x.group))); } }
    for g in &r.facts.groups { println!("{} w {:?} q {:?}", g.path, g.weight, g.quota_ns); }
}
