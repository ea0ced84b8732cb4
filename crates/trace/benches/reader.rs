//! How fast traces are read.
//!
//! Budget, on one core of a 2020s server: framing takes at least 30 million records a second,
//! `info` 10 million, `latency` 5 million, `export` 2 million. A minute of a busy host with 64
//! threads and 50,000 scheduling records a second on each (200 million records, 5 GB) is then
//! gone through in less time than it took to record.
//!
//! `cargo bench -p lowtail-trace`

use divan::{Bencher, counter::ItemsCount};
use lowtail_trace::reader::Reader;
use lowtail_trace::{Options, export_perfetto, info, latency};

const CAPTURE: &[u8] = include_bytes!("../data/credit2-4.20-ratelimit1000.bin");
const RECORDS: u64 = 17_740;

fn main() {
    divan::main();
}

#[divan::bench]
fn read(bencher: Bencher<'_, '_>) {
    bencher.counter(ItemsCount::new(RECORDS)).bench(|| {
        let mut reader = Reader::new(CAPTURE);
        let mut items = 0_u64;
        while let Ok(Some(_)) = reader.next_item() {
            items += 1;
        }
        items
    });
}

#[divan::bench(name = "info")]
fn bench_info(bencher: Bencher<'_, '_>) {
    bencher.counter(ItemsCount::new(RECORDS)).bench(|| info(CAPTURE, &Options::default()));
}

#[divan::bench(name = "latency")]
fn bench_latency(bencher: Bencher<'_, '_>) {
    bencher.counter(ItemsCount::new(RECORDS)).bench(|| latency(CAPTURE, &Options::default()));
}

#[divan::bench]
fn export(bencher: Bencher<'_, '_>) {
    bencher
        .counter(ItemsCount::new(RECORDS))
        .bench(|| export_perfetto(CAPTURE, std::io::sink(), "bench", &Options::default()));
}
