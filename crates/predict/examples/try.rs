use lowtail_predict::*;
fn main() {
    let path = std::env::args().nth(1).unwrap();
    let file = std::fs::File::open(path).unwrap();
    let t = std::time::Instant::now();
    let r = Recording::read(file, &Default::default()).unwrap();
    let read = t.elapsed();
    let s = recorded_scheduler(&r.host, Some("6.18")).unwrap();
    let m = Model::new(&r, &Setup { seed: std::env::args().nth(2).map_or(0, |s| s.parse().unwrap()), ..Setup::new(s) }).unwrap();
    let t = std::time::Instant::now();
    let p = replay(&m, r.events, 1, |_| {}).unwrap();
    eprintln!("{} events read in {read:?}, {} simulated in {:?}", r.events, p.events, t.elapsed());
    let c = Comparison::new(&r, &m, &p);
    for x in c.vms.iter().chain(&c.threads) {
        let f = |a: Option<f64>, b: Option<f64>| format!("{:>9.1} {:>9.1}", a.unwrap_or(-1.0), b.unwrap_or(-1.0));
        println!("{:28} n {:6} {:6} p50 {} p90 {} p99 {} cpu {:6.2} {:6.2} sw {} {}", x.name, x.recorded.wakeups, x.simulated.wakeups, f(x.recorded.p50_us, x.simulated.p50_us), f(x.recorded.p90_us, x.simulated.p90_us), f(x.recorded.p99_us, x.simulated.p99_us), x.recorded.cpu_percent, x.simulated.cpu_percent, x.recorded.switches, x.simulated.switches);
    }
    println!("{:?}", Grade::of(&c));
}
