fn main() {
    let t = std::time::Instant::now();
    let s = lowtail_live::vcpu::Scheduler::load(&Default::default());
    println!("{:?} {:?}", s, t.elapsed());
    let s = s.unwrap();
    println!("{:?}", s.state());
}
